"""Text from language models: a compiled decoder continues prompts, token by token (docs/generation.md).

    generator = graphfuse.generation.load("model/")
    for piece in generator.stream("Once upon a time", temperature=0.8, seed=1):
        print(piece.text, end="")

folder        a file or a folder to a generator            compiles, or loads an artifact
decoder       tokens and a cache to logits                 a state in place, or one that grows
sampling      logits to tokens                             functions, whose randomness has no state
text          tokens to text, stop strings
generator     the loop; drafts
"""

from graphfuse.generation.config import GenerationConfig
from graphfuse.generation.decoder import Decoder, Interface
from graphfuse.generation.folder import Folder, load
from graphfuse.generation.generator import Completion, Generator, Piece, Stream
from graphfuse.generation.text import FileTokenizer, Tokenizer

__all__ = [
    "Completion", "Decoder", "FileTokenizer", "Folder", "GenerationConfig", "Generator", "Interface", "Piece", "Stream",
    "Tokenizer", "load",
]  # fmt: skip
