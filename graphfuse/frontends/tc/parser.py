"""Declarations, statements and whole files: tokens to the tree, going on after each error."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc.diagnostics import FixIt, Note, Reporter
from graphfuse.frontends.tc.parse_expr import Expressions
from graphfuse.frontends.tc.reader import (
    AGGREGATES,
    KEYWORDS,
    QUALIFIERS,
    SPECIFIERS,
    STATEMENTS,
    STORAGE,
    TYPE_WORDS,
    SyntaxFaultError,
    T,
    shown,
)
from graphfuse.frontends.tc.source import Span
from graphfuse.frontends.tc.tokens import Token

ATTRIBUTES = ("multipleof", "aligned", "readonly", "writeonly", "noalias", "retune")
_ATTRIBUTE_WORDS = {f"__{name}": name for name in ATTRIBUTES} | {"__restrict__": "noalias"}

_TYPES = {
    "void": "void", "_Bool": "bool", "char": "char", "signed char": "char", "char unsigned": "unsigned char",
    "half": "half", "float": "float", "double": "double",
    "short": "short", "int short": "short", "short signed": "short", "int short signed": "short",
    "short unsigned": "unsigned short", "int short unsigned": "unsigned short",
    "int": "int", "signed": "int", "int signed": "int", "unsigned": "unsigned", "int unsigned": "unsigned",
    "long": "long", "int long": "long", "long signed": "long", "int long signed": "long",
    "long unsigned": "unsigned long", "int long unsigned": "unsigned long",
}  # fmt: skip
"""Type words in alphabetical order, a second `long` left out, to the name of the type."""


def parse_unit(tokens: list[Token], report: Reporter) -> ast.Unit:
    """Parse the tokens of a file."""
    return _Parser(tokens, report).unit()


class _Parser(Expressions):
    # files

    def unit(self) -> ast.Unit:
        first = self.next
        body: list[ast.Function | ast.Declaration | ast.Failed | ast.StaticAssert] = []
        while self.next.kind != "end":
            start, types = self.index, self._types
            try:
                if not self.accept(";"):
                    body.append(self._external())
            except SyntaxFaultError:
                self.open_brackets, self._types = 0, types
                self._skip_external(start)
                body += self._failed(start)
        return ast.Unit(first, first, self.next, tuple(body))

    def _skip_external(self, start: int) -> None:
        """Go behind the next `;` or `}` outside braces."""
        if self.index == start:
            self.take()
        depth = 0
        while self.next.kind != "end":
            token = self.take()
            depth += (token.text == "{") - (token.text == "}")
            if depth <= 0 and (token.text == "}" or (token.text == ";" and not depth)):
                return
            if depth <= 0 and self.next.bol and self.next.text in ("__global__", "void"):
                return

    def _external(self) -> ast.Function | ast.Declaration | ast.StaticAssert:
        if self.next.text == "_Static_assert":
            return self._static_assert()
        if not (self.starts_type(self.next) or self.starts_unknown_type()):
            self.fail(f"expected a function or a declaration, found {shown(self.next)}")
        specifiers = self._specifiers()
        if self.next.text == "[" or self._is_function():
            return self._function(specifiers)
        return self._declaration(specifiers)

    def _is_function(self) -> bool:
        ahead = 0
        while self.peek(ahead).text == "*" or self.peek(ahead).text in QUALIFIERS:
            ahead += 1
        return self.peek(ahead).kind == "name" and self.peek(ahead + 1).text == "("

    def _function(self, specifiers: ast.Specifiers) -> ast.Function:
        pointers = self._pointers()
        shape = self._any_shape() if self.next.text == "[" else None
        if not pointers:
            pointers = self._pointers()
        result = ast.TypeName(specifiers.at, specifiers.first, self.next, specifiers, pointers, shape)
        name = self._name("a function name")
        params, _ = self.bracketed("(", lambda: self._parameters(name.text), "after the function name")
        attributes = self._attributes()
        body = None
        self.function_name = name.text
        if self.next.text == "{" or self._lacks_brace():
            body = self._block(new_scope=False)
        last = body.last if body else self.semicolon("the prototype")
        self.pop_scope()
        return ast.Function(name, specifiers.first, last, result, name.text, params, attributes, body)

    def _lacks_brace(self) -> bool:
        """Whether the brace of a body is missing: what follows closes one more than it opens."""
        depth = 0
        for i in range(self.index, len(self.tokens)) if self.next.text != ";" else ():
            depth += (self.tokens[i].text == "{") - (self.tokens[i].text == "}")
            if depth < 0:
                return True
        return False

    def _parameters(self, of: str) -> tuple[ast.Parameter, ...]:
        self.declare(of, is_type=False)
        self.push_scope()
        if self.next.text == "void" and self.peek().text == ")":
            self.take()
        return self.listed(")", self._parameter, "between parameters")

    def _parameter(self) -> ast.Parameter:
        start, brackets = self.index, self.open_brackets
        try:
            return self._good_parameter()
        except SyntaxFaultError:
            self._skip_to((",", ")"), start, brackets)
            return self._failed_parameter(start, self.index)

    def _failed_parameter(self, start: int, end: int) -> ast.Parameter:
        """A parameter with a syntax error: its name is the last one outside of brackets, and its type is unknown."""
        first, last = self.tokens[start], self.tokens[max(end - 1, start)]
        at, name, depth = first, "", 0
        for token in self.tokens[start:end]:
            depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "punct" else 0
            if token.kind == "name" and not depth and token.text not in KEYWORDS and not token.text.startswith("__"):
                at, name = token, token.text
        self.declare(name, is_type=False)
        return ast.Parameter(
            at, first, last,
            ast.Specifiers(first, first, last, (), (), ""),
            ast.Declarator(at, at, at, name, (), (), None, None),
        )  # fmt: skip

    def _skip_to(self, ends: tuple[str, ...], start: int, brackets: int) -> None:
        """After an error in what begins at `start`, go to where it ends; raises where a body or the file ends first.

        `brackets` were open at the start.
        """
        depth = 0
        for i in range(start, len(self.tokens)):
            token = self.tokens[i]
            if token.kind == "end" or token.text in ("{", "}"):
                break
            if depth == 0 and token.text in ends and i >= self.index:
                self.index, self.next, self.open_brackets = i, token, brackets
                return
            if token.kind == "punct":
                depth = max(depth + (token.text in "([") - (token.text in ")]"), 0)
        raise SyntaxFaultError

    def _good_parameter(self) -> ast.Parameter:
        if self.next.text == "...":
            self.fail("variadic functions are not supported: expected a parameter, found '...'")
        if not (self.starts_type(self.next) or self.starts_unknown_type()):
            self.fail(f"expected the type of a parameter, found {shown(self.next)}")
        specifiers = self._specifiers()
        declarator = self._declarator(optional_name=True)
        if self.next.text == "=":
            self.fail("a parameter has no default value: expected ',' or ')', found '='")
        return ast.Parameter(declarator.at, specifiers.first, declarator.last, specifiers, declarator)

    def _static_assert(self) -> ast.StaticAssert:
        word = self.take()
        (condition, message), _ = self.bracketed("(", self._asserted, "after '_Static_assert'")
        return ast.StaticAssert(word, word, self.semicolon("_Static_assert"), condition, message)

    def _asserted(self) -> tuple[ast.Expr, str]:
        condition = self.conditional()
        if not self.accept(","):
            return condition, ""
        if self.next.kind != "string":
            self.fail(f"_Static_assert: expected a message, found {shown(self.next)}")
        return condition, self._string().value

    # declarations

    def _specifiers(self) -> ast.Specifiers:
        first = self.next
        storage: list[str] = []
        qualifiers: list[str] = []
        words: list[Token] = []
        typedef: Token | None = None
        enum: tuple[str, tuple[ast.Enumerator, ...] | None] | None = None
        while self.next.kind == "name":
            token = self.next
            if token.text in STORAGE:
                storage.append(token.text)
            elif token.text in QUALIFIERS:
                qualifiers.append(token.text)
            elif token.text in TYPE_WORDS:
                words.append(token)
            elif token.text == "enum" and not words and typedef is None and enum is None:
                enum = self._enum()
                continue
            elif token.text in AGGREGATES:
                self._aggregate(token)
            elif not words and typedef is None and enum is None and self._names_type(token):
                typedef = token
            else:
                break
            self.take()
        last = self.tokens[self.index - 1]
        if enum is not None:
            if words:
                self.fail(f"expected a name behind the enumeration, found {words[0].text!r}", words[0])
            return ast.Enum(first, first, last, tuple(storage), tuple(qualifiers), "int", *enum)
        name = typedef.text if typedef else self._type_of_words(words, first)
        at = typedef or (words[0] if words else first)
        return ast.Specifiers(at, first, last, tuple(storage), tuple(qualifiers), name)

    def _names_type(self, token: Token) -> bool:
        return self.is_type_name(token.text) or self.starts_unknown_type()

    def _aggregate(self, token: Token) -> None:
        if token.text == "enum":
            self.fail("expected one type, found 'enum' behind another", token)
        what = {"struct": "structs", "union": "unions"}[token.text]
        self.fail(f"{what} are not supported: expected a scalar, pointer or tile type, found {token.text!r}", token)

    def _enum(self) -> tuple[str, tuple[ast.Enumerator, ...] | None]:
        """The tag of an enumeration, and its constants if it has braces."""
        self.take()
        tag = self._name("a tag or '{'").text if self.next.text != "{" else ""
        if self.next.text != "{":
            return tag, None
        items, closing = self.items("{", self._enumerator, "between constants")
        if not items:
            self.fail("an enumeration: expected at least one constant, found '}'", closing)
        return tag, items

    def _enumerator(self) -> ast.Enumerator:
        name = self._name("the name of a constant")
        value = self.conditional() if self.accept("=") else None
        # known from here on: the next value may use it
        self.declare(name.text, is_type=False)
        return ast.Enumerator(name, name, value.last if value else name, name.text, value)

    def _type_of_words(self, words: Sequence[Token], first: Token) -> str:
        texts = sorted(w.text for w in words)
        if not texts:
            self.fail(f"expected a type, found {shown(self.next)}", self.next if first is not self.next else first)
        if texts.count("long") == 2:
            texts.remove("long")
        name = _TYPES.get(" ".join(texts))
        if name is None:
            self.fail(f"there is no type {' '.join(w.text for w in words)!r}", words[0])
        return name

    def _pointers(self) -> tuple[tuple[str, ...], ...]:
        out: list[tuple[str, ...]] = []
        while self.accept("*"):
            qualifiers: list[str] = []
            while self.next.text in QUALIFIERS:
                qualifiers.append(self.take().text)
            out.append(tuple(qualifiers))
        return tuple(out)

    def _attributes(self) -> tuple[ast.Attribute, ...]:
        out: list[ast.Attribute] = []
        while True:
            token = self.next
            if token.text in _ATTRIBUTE_WORDS:
                self.take()
                out.append(self._attribute(token, _ATTRIBUTE_WORDS[token.text]))
            elif token.text == "__attribute__":
                self.take()
                (inner, _), _ = self.bracketed("(", self._inner_attributes, "after '__attribute__'")
                out += inner
            elif token.kind == "name" and token.text.startswith("__") and token.text not in SPECIFIERS:
                self.take()
                out.append(self._attribute(token, token.text))
            else:
                return tuple(out)

    def _inner_attributes(self) -> tuple[tuple[ast.Attribute, ...], Token]:
        def attribute() -> ast.Attribute:
            name = self._name("an attribute")
            return self._attribute(name, name.text.removeprefix("__").removesuffix("__"))

        return self.items("(", attribute, "between attributes", "after '__attribute__('")

    def _attribute(self, at: Token, name: str) -> ast.Attribute:
        args, last = self.items("(", self.conditional, "in an attribute") if self.next.text == "(" else ((), at)
        return ast.Attribute(at, at, last, name, args)

    def _declarator(self, *, optional_name: bool = False) -> ast.Declarator:
        first = self.next
        pointers = self._pointers()
        named = self.next.kind == "name" and self.next.text not in KEYWORDS and not self.next.text.startswith("__")
        named = named or not optional_name
        at = self._name("a name to declare") if named else first
        name = at.text if named else ""
        if self.next.text == "(" and not optional_name:
            self.fail(f"functions are declared outside of functions: expected ';', found {shown(self.next)}")
        attributes = self._attributes()
        shape = (self._any_shape if optional_name else self._shape)() if self.next.text == "[" else None
        if shape:
            shape = self._nested_shape(shape)
        attributes += self._attributes()
        last = self.tokens[self.index - 1] if self.tokens[self.index - 1] is not first or name else at
        return ast.Declarator(at, first, last, name, pointers, attributes, shape, None)

    def _any_shape(self) -> tuple[ast.Expr, ...]:
        """Dims, or none: of a parameter or a result that has any shape."""
        if self.peek().text != "]":
            return self._shape()
        self.take()
        self.take()
        return ()

    def _shape(self) -> tuple[ast.Expr, ...]:
        dims, closing = self.items("[", self.conditional, "between dims")
        if not dims:
            self.fail("a tile needs its dims: expected a constant, found ']'", closing)
        return dims

    def _nested_shape(self, shape: tuple[ast.Expr, ...]) -> tuple[ast.Expr, ...]:
        """`[16][8]` is reported and read as `[16, 8]`."""
        while self.next.text == "[":
            closing, opening = self.tokens[self.index - 1], self.next
            at = Span(closing.source, closing.pos, opening.end, closing.pos)
            message = "a tile has one list of dims: expected '[a, b]', found '[a][b]'"
            self.report.error("nested-shape", message, at, (), [FixIt(at, ", ")])
            shape += self._shape()
        return shape

    def type_name(self) -> ast.TypeName:
        first = self.next
        if self.is_unknown(first):
            self.take()
            specifiers = ast.Specifiers(first, first, first, (), (), first.text)
        elif self.starts_type(first):
            specifiers = self._specifiers()
        else:
            self.fail(f"expected a type, found {shown(first)}")
        pointers = self._pointers()
        shape = self._shape() if self.next.text == "[" else None
        return ast.TypeName(specifiers.at, first, self.tokens[self.index - 1], specifiers, pointers, shape)

    def _declaration(self, specifiers: ast.Specifiers) -> ast.Declaration:
        declarators: list[ast.Declarator] = []
        is_type = "typedef" in specifiers.storage
        while self.next.text != ";":
            d = self._declarator()
            self.declare(d.name, is_type=is_type)
            if self.accept("="):
                init = self._initialiser()
                d = ast.Declarator(d.at, d.first, init.last, d.name, d.pointers, d.attributes, d.shape, init)
            declarators.append(d)
            if not self.accept(","):
                break
        last = self.semicolon("the declaration")
        return ast.Declaration(specifiers.at, specifiers.first, last, specifiers, tuple(declarators))

    def _initialiser(self) -> ast.Expr:
        if self.next.text != "{":
            return self.assignment()
        opening = self.next
        items, closing = self.items("{", self._initialiser, "in an initialiser", nested=True)
        return ast.InitList(opening, opening, closing, items)

    def _name(self, what: str) -> Token:
        if self.next.kind != "name" or self.next.text in KEYWORDS:
            self.fail(f"expected {what}, found {shown(self.next)}")
        return self.take()

    # statements

    def _block(self, *, new_scope: bool = True) -> ast.Block:
        opening = self.next
        if not self.accept("{"):
            self.report.error("syntax", f"expected '{{' before the body of a function, found {shown(opening)}", opening)
        if new_scope:
            self.push_scope()
        body: list[ast.Stmt] = []
        while not self.at("}") and self.next.kind != "end":
            start, types = self.index, self._types
            try:
                body.append(self._statement())
            except SyntaxFaultError:
                self.open_brackets, self._types = 0, types
                self._skip_statement(start)
                body += self._failed(start)
                self.accept("else")  # its `if` was the error
        if new_scope:
            self.pop_scope()
        if self.next.kind == "end":
            # what is in it is no worse for that
            note = Note("to match this '{'", opening.span)
            self.report.error("syntax", f"expected '}}', found {shown(self.next)}", self.next, [note])
        closing = self.take()
        return ast.Block(opening, opening, closing, tuple(body))

    def _failed(self, start: int) -> list[ast.Failed]:
        """The names that the tokens from `start` on were to declare, which end in an error.

        They stand outside of brackets, behind types, stars and commas.
        """
        tokens = self.tokens[start : self.index + 1]
        if tokens[0].text == "for":
            tokens = tokens[2:]
        if len(tokens) < 2:
            return []
        if not self.starts_type(tokens[0]):
            if not self.is_unknown(tokens[0]) or (tokens[1].kind != "name" and tokens[1].text != "*"):
                return []
            tokens = tokens[1:]
        names: list[Token] = []
        depth, expected = 0, True
        for token, follower in itertools.pairwise(tokens):
            if token.kind == "punct":
                expected = (expected and token.text == "*") or (depth == 0 and token.text == ",")
                depth += (token.text in "([{") - (token.text in ")]}")
            elif token.kind == "name" and depth == 0 and self.starts_type(token):
                expected = True
            elif token.kind == "name" and expected and depth == 0:
                names.append(token)
                expected = follower.kind == "name" or follower.text == "*"
        is_type = any(t.text == "typedef" for t in tokens)
        for name in names:
            self.declare(name.text, is_type=is_type)
        found = tuple(ast.Name(n, n, n, n.text) for n in names)
        return [ast.Failed(tokens[0], tokens[0], tokens[-1], found)] if found else []

    def _skip_statement(self, start: int) -> None:
        """Go behind the next `;`, or in front of what surely begins or ends a statement."""
        depth = 0
        while self.next.kind != "end":
            token = self.next
            if depth == 0 and self.index > start:
                if token.text == "}" or (token.bol and (token.text in STATEMENTS or token.text in SPECIFIERS)):
                    return
                if self.tokens[self.index - 1].text == ";":
                    return
            depth += (token.text == "{") - (token.text == "}")
            self.take()
            if depth < 0:
                return

    def _statement(self) -> ast.Stmt:
        token = self.next
        with self.deeper():
            if token.text == "{":
                return self._block()
            if token.kind != "name":
                return self._expression_statement()
            parse = self._STATEMENTS.get(token.text)
            if parse is not None:
                return parse(self)
            if self.starts_type(token) or self.starts_unknown_type():
                return self._declaration(self._specifiers())
            if self.peek().text == ":" and token.text not in SPECIFIERS:
                self.take()
                return ast.Label(token, token, self.take(), "label", None)
            return self._expression_statement()

    def _expression_statement(self) -> ast.ExprStmt:
        first = self.next
        if first.text == ";":
            return ast.ExprStmt(first, first, self.take(), None)
        expr = self.expression()
        return ast.ExprStmt(expr.at, first, self.semicolon("the statement"), expr)

    def _substatement(self, of: str) -> ast.Stmt:
        """The body of `if` or a loop, which may not be a declaration."""
        if self.starts_type(self.next):
            self.report.error("declaration-body", f"a declaration as the body of {of!r} needs braces", self.next)
        self.push_scope()
        out = self._statement()
        self.pop_scope()
        return out

    def _header(self, of: Token, parse: Callable[[], T], otherwise: T) -> T:
        """What stands in brackets behind a word; where that has an error, `otherwise`, so that the body is read."""
        start, brackets = self.index, self.open_brackets
        try:
            return self.bracketed("(", parse, f"after {of.text!r}")[0]
        except SyntaxFaultError:
            if self.tokens[start].text != "(":
                raise
            self._skip_to((")",), start + 1, brackets)
            self.take()
            return otherwise

    def _bracketed_condition(self, of: Token) -> ast.Expr:
        return self._header(of, self.expression, ast.Int(of, of, of, 1, 32, signed=True))

    def _if(self) -> ast.If:
        word = self.take()
        condition = self._bracketed_condition(word)
        then = self._substatement("if")
        other = self._substatement("else") if self.accept("else") else None
        return ast.If(word, word, (other or then).last, condition, then, other)

    def _else(self) -> ast.Stmt:
        self.fail("'else' without an 'if' before it")

    def _for(self) -> ast.For:
        start, word = self.index, self.take()
        self.push_scope()
        found = self._header(word, self._for_header, None)
        if found is None:
            failed = self._failed(start)
            found = (failed[0] if failed else ast.ExprStmt(word, word, word, None)), None, None
        body = self._substatement("for")
        self.pop_scope()
        return ast.For(word, word, body.last, *found, body)

    def _for_header(self) -> tuple[ast.Declaration | ast.ExprStmt | ast.Failed, ast.Expr | None, ast.Expr | None]:
        declares = self.starts_type(self.next) or self.starts_unknown_type()
        init = self._declaration(self._specifiers()) if declares else self._expression_statement()
        condition = None if self.next.text == ";" else self.expression()
        self.expect(";", "after the condition of 'for'")
        step = None if self.next.text == ")" else self.expression()
        return init, condition, step

    def _while(self) -> ast.While:
        word = self.take()
        condition = self._bracketed_condition(word)
        body = self._substatement("while")
        return ast.While(word, word, body.last, condition, body, body_first=False)

    def _do(self) -> ast.While:
        word = self.take()
        body = self._substatement("do")
        tail = self.expect("while", "after the body of 'do'")
        condition = self._bracketed_condition(tail)
        return ast.While(word, word, self.semicolon("'do ... while'"), condition, body, body_first=True)

    def _switch(self) -> ast.Switch:
        word = self.take()
        value = self._bracketed_condition(word)
        body = self._substatement("switch")
        return ast.Switch(word, word, body.last, value, body)

    def _case(self) -> ast.Label:
        word = self.take()
        value = self.conditional() if word.text == "case" else None
        return ast.Label(word, word, self.expect(":", f"after {word.text!r}"), word.text, value)

    def _jump(self) -> ast.Jump:
        word = self.take()
        value = None
        if word.text == "goto":
            name = self._name("a label")
            value = ast.Name(name, name, name, name.text)
        elif word.text == "return" and self.next.text != ";" and not (self.next.bol or self.next.text == "}"):
            value = self.expression()
        return ast.Jump(word, word, self.semicolon(repr(word.text)), word.text, value)

    _STATEMENTS: ClassVar[dict[str, Callable[[Any], ast.Stmt]]] = {
        "if": _if, "else": _else, "for": _for, "while": _while, "do": _do,
        "switch": _switch, "case": _case, "default": _case, "break": _jump,
        "continue": _jump, "return": _jump, "goto": _jump,
        "_Static_assert": _static_assert,
    }  # fmt: skip
