"""Expressions, by precedence climbing: the table is the language's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc.constants import LEVELS, FloatLiteral, parse_char, parse_number, unescape
from graphfuse.frontends.tc.cuda_words import CUDA_WORDS
from graphfuse.frontends.tc.diagnostics import FixIt
from graphfuse.frontends.tc.reader import KEYWORDS, Reader, shown
from graphfuse.frontends.tc.source import Span
from graphfuse.frontends.tc.tokens import Token

PRECEDENCE = {op: level for level, ops in enumerate((*LEVELS, ("@",), ("...",))) for op in ops}
"""Infix operators from loosest to tightest; all group to the left."""

ASSIGNMENTS = frozenset(("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|="))
PREFIXES = frozenset(("-", "+", "~", "!", "^", "*", "&", "++", "--"))
REDUCTIONS = frozenset(("+", "-", "*", "&", "|", "^", "max", "min", "argmax", "argmin"))
_ARITHMETIC = frozenset(("*", "/", "%", "+", "-", "<<", ">>"))


class Expressions(Reader, ABC):
    """What parses expressions; types come from the class that parses declarations."""

    function_name = ""

    @abstractmethod
    def type_name(self) -> ast.TypeName:
        """A type as casts write it."""

    def expression(self) -> ast.Expr:
        """A full expression, commas included."""
        left = self.assignment()
        while self.next.text == ",":
            op = self.take()
            right = self.assignment()
            left = ast.Binary(op, left.first, right.last, ",", left, right)
        return left

    def assignment(self) -> ast.Expr:
        """`a = b`, or anything tighter."""
        left = self.conditional()
        if self.next.text not in ASSIGNMENTS or self.next.kind != "punct":
            return left
        op = self.take()
        with self.deeper():
            value = self.assignment()
        return ast.Assign(op, left.first, value.last, op.text[:-1], left, value)

    def conditional(self) -> ast.Expr:
        """`c ? a : b`, or anything tighter: what a constant expression may be."""
        condition = self.binary(0)
        if self.next.text != "?":
            return condition
        op = self.take()
        with self.deeper():
            then = None if self.at(":") else self.expression()
            self.expect(":", "of '?'")
            other = self.conditional()
        return ast.Ternary(op, condition.first, other.last, condition, then, other)

    def binary(self, level: int) -> ast.Expr:
        """Infix operators of `level` and tighter."""
        left = self.unary()
        while True:
            op = self.next
            mine = PRECEDENCE.get(op.text, -1)
            if mine < level or op.kind != "punct" or self._at_store():
                return left
            self.take()
            with self.deeper():
                right = self.binary(mine + 1)
            left = ast.Binary(op, left.first, right.last, op.text, left, right)
            if op.text == "..." and self.next.text in _ARITHMETIC and not self._at_store():
                self._range_operand(left)

    def _range_operand(self, node: ast.Binary) -> None:
        op = self.next
        message = f"'...' binds tighter than {op.text!r}: expected parentheses around the range or its end"
        first, last = node.first.outermost, node.last.outermost
        fixits = [
            FixIt(Span(first.source, first.pos, first.pos, first.pos), "("),
            FixIt(Span(last.source, last.end, last.end, last.end), ")"),
        ]
        self.report.warning("range-operand", message, op, (), fixits)

    def _at_store(self) -> bool:
        """Whether a `*` that begins a line begins a store: an assignment follows before the statement ends."""
        if self.next.text != "*" or not self.next.bol or self.open_brackets:
            return False
        if self.peek().text == "?":
            return True
        depth = 0
        for ahead in range(1, 400):
            token = self.peek(ahead)
            if token.kind == "punct":
                depth += (token.text in "([{") - (token.text in ")]}")
                if depth < 0 or token.text == ";":
                    return False
                if depth == 0 and token.text in ASSIGNMENTS:
                    return True
            elif token.kind == "end":
                return False
        return False

    def unary(self) -> ast.Expr:
        """Prefix operators and casts."""
        token = self.next
        if token.kind != "punct" or token.text not in PREFIXES:
            if token.text == "(" and (self.starts_type(self.peek()) or self._at_misspelt_cast()):
                return self._cast()
            return self.postfix()
        self.take()
        with self.deeper():
            if token.text == "*" and self.next.text == "?":
                return self._masked(token)
            operand = self.unary()
            return ast.Unary(token, token, operand.last, token.text, operand)

    def _at_misspelt_cast(self) -> bool:
        """Whether an unknown name stands alone in brackets in front of an operand."""
        ahead = 2
        while self.peek(ahead).text == "*":
            ahead += 1
        operand = self.peek(ahead + 1)
        return (
            self.is_unknown(self.peek())
            and self.peek(ahead).text == ")"
            and operand.kind in ("name", "number")
            and operand.text not in KEYWORDS
            and not operand.bol
        )

    def _masked(self, star: Token) -> ast.Expr:
        self.take()
        mask, _ = self.bracketed("(", self.expression, "after '*?'")
        operand = self.unary()
        return ast.MaskedDeref(star, star, operand.last, mask, operand)

    def _cast(self) -> ast.Expr:
        opening = self.next
        to, _ = self.bracketed("(", self.type_name)
        with self.deeper():
            operand = self.unary()
        return ast.Cast(opening, opening, operand.last, to, operand, bitcast=False)

    def postfix(self) -> ast.Expr:
        """Calls, subscripts, `++` and `--` behind a primary."""
        node = self.primary()
        while self.next.kind == "punct":
            text = self.next.text
            if text == "(":
                node = self._call(node)
            elif text == "[":
                node = self._subscript(node)
            elif text in ("++", "--") and not self.next.bol:
                op = self.take()
                node = ast.Postfix(op, node.first, op, text, node)
            elif text in (".", "->"):
                if isinstance(node, ast.Name) and node.text in CUDA_WORDS:
                    self.fail(f"{node.text!r} is not defined: {CUDA_WORDS[node.text]}", node.first)
                self.fail(f"struct members are not supported: expected an operator, found {text!r}")
            else:
                break
        return node

    def _call(self, function: ast.Expr) -> ast.Expr:
        opening = self.next
        if isinstance(function, ast.Name) and function.text == "atomic_add" and self.starts_type(self.peek()):
            self.bracketed("(", self._instance, nested=True)
            return function
        args, closing = self.items("(", self.assignment, "in a call", nested=True)
        return ast.Call(opening, function.first, closing, function, args)

    def _instance(self) -> None:
        """The old spelling names an instance first: `atomic_add(float, 64, 64)(pointers, values, mask)`."""
        self.type_name()
        while self.accept(","):
            self.conditional()

    def _subscript(self, operand: ast.Expr) -> ast.Expr:
        opening = self.next
        items, closing = self.bracketed("[", self._subscript_items, nested=True)
        if not items:
            self.fail("subscript: expected ':', 'newaxis' or a reduction, found nothing", closing)
        return ast.Subscript(opening, operand.first, closing, operand, tuple(items))

    def _subscript_items(self) -> list[ast.SubscriptItem]:
        items: list[ast.SubscriptItem] = []
        while not self.at("]"):
            items.append(self._subscript_item())
            if not self.accept(","):
                break
        return items

    def _subscript_item(self) -> ast.SubscriptItem:
        token = self.next
        if (token.text in REDUCTIONS or token.text in (":", "newaxis")) and self.peek().text in (",", "]"):
            self.take()
            kind = "xor" if token.text == "^" else token.text
            return ast.SubscriptItem(token, token, token, kind, None)
        if token.text == "^":
            self.take()
            axis = self.conditional()
            return ast.SubscriptItem(token, token, axis.last, "^", axis)
        start = None if self.at(":") else self.conditional()
        if not (colon := self.accept(":")):
            assert start is not None, "an index"
            return ast.SubscriptItem(token, token, start.last, "index", start)
        end = None if self.next.text in (",", "]") else self.conditional()
        ends = ast.Slice(colon, token, end.last if end else colon, start, end)
        return ast.SubscriptItem(token, token, ends.last, "slice", ends)

    def primary(self) -> ast.Expr:
        """Names, constants, brackets."""
        token = self.next
        match token.kind:
            case "name" if token.text not in KEYWORDS:
                self.take()
                if token.text == "__func__" and self.function_name:
                    return ast.String(token, token, token, self.function_name)
                return ast.Name(token, token, token, token.text)
            case "number":
                self.take()
                return self._number(token)
            case "string":
                return self._string()
            case "char":
                self.take()
                value = parse_char(token.text)
                if isinstance(value, str):
                    self.report.error("constant", value, token)
                    value = 0
                return ast.Int(token, token, token, value, 32, signed=True)
            case "punct" if token.text == "(":
                return self.bracketed("(", self.expression, nested=True)[0]
            case _:
                return self._word(token)

    def _number(self, token: Token) -> ast.Expr:
        number = parse_number(token.text)
        if isinstance(number, str):
            self.report.error("constant", number, token)
            return ast.Int(token, token, token, 1, 32, signed=True)
        if isinstance(number, FloatLiteral):
            if number.suffix == "l":
                self.report.error("constant", f"long double is not supported: found {token.text!r}", token)
            return ast.Float(token, token, token, number.value, number.suffix)
        return ast.Int(token, token, token, number.value, number.bits, number.signed)

    def _string(self) -> ast.String:
        first = last = self.take()
        parts = [unescape(first.text[1:-1])]
        while self.next.kind == "string":
            last = self.take()
            parts.append(unescape(last.text[1:-1]))
        return ast.String(first, first, last, "".join(parts))

    def _word(self, token: Token) -> ast.Expr:
        match token.text:
            case "bitcast":
                return self._bitcast()
            case "sizeof" | "_Alignof":
                return self._sizeof()
            case "_Generic":
                return self._generic()
            case _ if token.kind == "other":
                if token.text.startswith('"'):
                    self.fail("string constant is never closed: expected '\"' before the end of the line")
                if token.text == "'":
                    self.fail("character constant is empty or never closed")
                return self.fail(f"unexpected character {token.text!r}")
            case _:
                return self.fail(f"expected an expression, found {shown(token)}")

    def _bitcast(self) -> ast.Expr:
        word = self.take()
        self.expect("<", "after 'bitcast'")
        to = self.type_name()
        self.expect(">", "after the type of 'bitcast'")
        operand, closing = self.bracketed("(", self.expression, "after 'bitcast<...>'", nested=True)
        return ast.Cast(word, word, closing, to, operand, bitcast=True)

    def _sizeof(self) -> ast.Expr:
        word = self.take()
        if self.next.text == "(" and self.starts_type(self.peek()):
            to, closing = self.bracketed("(", self.type_name)
            return ast.SizeOf(word, word, closing, word.text, to)
        with self.deeper(2):
            operand = self.unary()
        return ast.SizeOf(word, word, operand.last, word.text, operand)

    def _generic(self) -> ast.Expr:
        word = self.take()
        (control, choices), closing = self.bracketed("(", self._choices, "after '_Generic'", nested=True)
        return ast.Generic(word, word, closing, control, tuple(choices))

    def _choices(self) -> tuple[ast.Expr, list[tuple[ast.TypeName | None, ast.Expr]]]:
        control = self.assignment()
        choices: list[tuple[ast.TypeName | None, ast.Expr]] = []
        while self.accept(","):
            to = None if self.accept("default") else self.type_name()
            self.expect(":", "in '_Generic'")
            choices.append((to, self.assignment()))
        return control, choices
