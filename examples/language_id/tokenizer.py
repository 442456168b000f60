# SPDX-License-Identifier: MIT
"""Text to the ids that the language identifier reads.

1. Normalise each code point: simple lower case; U+2019 to an apostrophe; the no-break space and every
   ASCII character that is neither a letter nor an apostrophe to a space. Runs of spaces count as
   one, with one at each end. A space is written "_".
2. Split the UTF-8 bytes: at each place take the longest piece of the vocabulary that matches. The
   256 single bytes are pieces, so nothing is unknown.
3. ids: 0 [PAD], 1 [CLS], 2 + b the byte b, 258 + n line n of vocab.txt (counted from 0). [CLS]
   comes first; what is over `max_position_embeddings` ids is cut off.
"""

import pathlib
import random

PAD, CLS, FIRST_BYTE, FIRST_PIECE = 0, 1, 2, 258
NO_BREAK_SPACE, RIGHT_QUOTE, DOTTED_CAPITAL_I = 0xA0, 0x2019, 0x130


def normalised(c):
    """The code point that replaces code point c: simple lower case, spaces as "_"."""
    if c < 128 and not chr(c).isalpha() and chr(c) != "'" or c == NO_BREAK_SPACE:
        return ord("_")
    if c == RIGHT_QUOTE:
        return ord("'")
    if c == DOTTED_CAPITAL_I:  # its full lower case is two code points
        return ord("i")
    lower = chr(c).lower()
    return ord(lower) if len(lower) == 1 else c


def normalise(text):
    """Lower-case text with one "_" for each run of spaces, ASCII digits and punctuation."""
    words = [word for word in text.translate(TABLE).split("_") if word]
    return "_" + "_".join(words) + "_" if words else "_"


class CodePoints(dict):
    """normalised(c) for every code point c, worked out when first asked for."""

    def __missing__(self, c):
        self[c] = normalised(c)
        return self[c]


TABLE = CodePoints()


class Tokenizer:
    def __init__(self, pieces, length):
        """`pieces`: the lines of vocab.txt; `length`: most ids of a text, [CLS] included."""
        self.pieces, self.length = list(pieces), length
        self.ids = {bytes([b]): FIRST_BYTE + b for b in range(256)}
        self.ids.update({p.encode(): FIRST_PIECE + n for n, p in enumerate(self.pieces)})
        self.longest = [1] * 256
        for piece in self.ids:
            self.longest[piece[0]] = max(self.longest[piece[0]], len(piece))

    @classmethod
    def load(cls, folder, length):
        text = (pathlib.Path(folder) / "vocab.txt").read_text(encoding="utf-8")
        return cls(text.rstrip("\n").split("\n"), length)

    @property
    def vocab_size(self):
        return FIRST_PIECE + len(self.pieces)

    def __call__(self, text, dropout=0.0):
        """ids of a text. `dropout`: probability of passing over a match for a shorter one, which
        in training shows the model other ways of splitting the same words."""
        data, result, start = normalise(text).encode(), [CLS], 0
        while start < len(data) and len(result) < self.length:
            for size in range(min(self.longest[data[start]], len(data) - start), 0, -1):
                identifier = self.ids.get(data[start:start + size])
                if identifier and (size == 1 or not dropout or random.random() >= dropout):
                    break
            result.append(identifier)
            start += size
        return result
