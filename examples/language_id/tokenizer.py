"""Text to the ids that the language identifier reads.

1. Normalise: letters to lower case by the ranges of LOWER_CASE, U+2019 to an apostrophe, every other
   ASCII character that is no letter and no apostrophe to a space; runs of spaces count as one; one
   space is put at each end. A space is written "_".
2. Split the UTF-8 bytes: at each place take the longest piece of the vocabulary that matches. The
   256 single bytes are pieces, so nothing is unknown.
3. ids: 0 [PAD], 1 [CLS], 2 + b the byte b, 258 + n line n of vocab.txt (counted from 0). [CLS]
   comes first; what is over `max_position_embeddings` ids is cut off.
"""

import pathlib
import random

PAD, CLS, FIRST_BYTE, FIRST_PIECE = 0, 1, 2, 258

# (first, last, step, offset): code points first, first + step, ... last become code point + offset.
LOWER_CASE = (
    (0x41, 0x5A, 1, 32), (0xC0, 0xD6, 1, 32), (0xD8, 0xDE, 1, 32), (0x100, 0x12E, 2, 1),
    (0x132, 0x136, 2, 1), (0x139, 0x147, 2, 1), (0x14A, 0x176, 2, 1), (0x179, 0x17D, 2, 1),
    (0x1A0, 0x1A0, 1, 1), (0x1AF, 0x1AF, 1, 1), (0x218, 0x21A, 2, 1), (0x386, 0x386, 1, 38),
    (0x388, 0x38A, 1, 37), (0x38C, 0x38C, 1, 64), (0x38E, 0x38F, 1, 63), (0x391, 0x3AB, 1, 32),
    (0x400, 0x40F, 1, 80), (0x410, 0x42F, 1, 32), (0x490, 0x490, 1, 1), (0x531, 0x556, 1, 48),
    (0x1E9E, 0x1E9E, 1, -7615), (0x1EA0, 0x1EF8, 2, 1),
)
LOWER = {c: c + offset for first, last, step, offset in LOWER_CASE
         for c in range(first, last + 1, step)}
LOWER.update({c: ord("_") for c in range(128) if not chr(c).isalpha() and chr(c) != "'"})
LOWER.update({0x130: ord("i"), 0x178: 0xFF, 0x2019: ord("'"), 0xA0: ord("_")})


def normalise(text):
    """Lower-case text with one "_" for each run of spaces, ASCII digits and punctuation."""
    words = [word for word in text.translate(LOWER).split("_") if word]
    return "_" + "_".join(words) + "_" if words else "_"


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
        return cls(text.splitlines(), length)

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
