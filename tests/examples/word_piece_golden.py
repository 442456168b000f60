# SPDX-License-Identifier: MIT
"""Writes word_piece_golden.json: texts and the ids that transformers' BertTokenizer gives them.

    python word_piece_golden.py DIR

DIR holds vocab.txt of all-MiniLM-L6-v2. Only the tokens that the texts need are kept, so the ids
are positions in the reduced vocabulary, which is part of the file. Written with transformers 5.24
and tokenizers 0.23.
"""

import json
import pathlib
import sys

from transformers import BertTokenizer

# Article 1 of the Universal Declaration of Human Rights, and some text of everyday kinds.
REAL = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason "
    "and conscience and should act towards one another in a spirit of brotherhood.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und "
    "Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de "
    "raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler.",
    "Hver maður er borinn frjáls og jafn öðrum að virðingu og réttindum.",
    "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.",
    "Visi žmonės gimsta laisvi ir lygūs savo orumu ir teisėmis. Jiems suteiktas protas ir sąžinė.",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और "
    "समानता प्राप्त है ।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
    "The quick brown fox jumps over the lazy dog's 3.14159 tails -- isn't it #1 (e.g., 50% off)?",
    "Visit https://example.com/a_b?c=d&e=f or write to first.last+tag@example.co.uk!",
    "for (int i = 0; i < n; ++i) { y[i] += a * x[i]; }  // $HOME ~ `pwd` ^ | \\",
    "E=mc² costs €5, £3, ¥7 or $2; ½ of 10 °C ± 1 µm → ∞ ≤ ∑ √2",
    "unaffable embeddings tokenization antidisestablishmentarianism supercalifragilistic",
]

NASTY = [
    "",
    " ",
    " \t\n\r\v\f ",
    "a",
    "##ing",
    "## ing #",
    # Accents: composed, decomposed, several on one letter in either order, alone, first in a word.
    "café cafe\u0301 CAFÉ re\u0301sume\u0301 naïve Ångström A\u030angstro\u0308m",
    "a\u0323\u0302 a\u0302\u0323 ậ q\u0307\u0323 q\u0323\u0307",
    "\u0301 \u0301a a \u0301 a\u0301\u0301\u0301",
    "a\u0488b a\u20ddb",  # enclosing marks (Me) stay
    "\U0001d158\U0001d165\U0001d16e \u0b95\u0bcb",  # combining marks of category Mc stay
    # Letters whose case is special.
    "İstanbul ISTANBUL ıspanak IĞDIR iğdır",
    "Straße STRASSE STRAẞE groß",
    "ΟΔΟΣ ὈΔΥΣΣΕΎΣ Σ ς σ ᾈ ᾼ ΐ",
    "Ǆ ǅ ǆ Ǳ ﬁ ﬀ Ŀ ŉ Ⅷ Ⓐ Ａ",
    "K Å Ω",  # Kelvin, Ångström and Ohm signs decompose to letters
    "ꭰ Ꭰ ა Ა",
    # Spaces and characters of no width.
    "a\u00a0b a\u2003b a\u3000b a\u1680b a\u2028b\u2029c a\u202fb a\u205fb",
    "a\u200bb a\u200cb a\u200db a\u2060b \ufeffab a\u00adb a\u180eb a\u200e\u200fb a\u061cb",
    "a\u0000b a\u0001b a\u0007b a\u001bb a\u001cb a\u001fb a\u007fb a\u0080b a\u0085b a\u009fb",
    "a\ue000b a\uf8ffb a\U000f0000b a\U0010fffdb",  # private use
    "a\ufffdb \ufffd",
    "a\uffffb a\ufffeb a\U0010ffffb",  # never characters; they stay
    # Chinese characters: in every range, at its ends, and the Japanese and Korean ones that are not.
    "東京tower中国 漢字かな交じり文 カタカナ 한국어 가",
    "a\u4dffb\u4e00c\u9fffd\ua000e \u33ff\u3400\u4dbf\u4dc0 x\uf900y\ufaffz\ufb00",
    "a\U00020000b\U0002a6dfc\U0002a6e0d a\U0002a700b a\U0002b73fb\U0002b740c\U0002b81fd",
    "a\U0002b820b a\U0002b91fb a\U0002b920b a\U0002ceafb a\U0002ceb0b a\U0002f800b a\U0002fa1fb",
    "𝐁old 𝓈cript ①②",
    # Punctuation of every category, and ASCII symbols, which count as punctuation.
    "a_b a-b a—b a(b) a[b] a{b} “a” ‘b’ «c» ‹d› a·b a…b a‽b ¿qué? ¡sí! a、b。c「d」",
    "a$b a+b a<b=c>d a^b a`b a|b a~b a¢b a©b a°b a×b a÷b a¬b a§b a¶b",
    "\u037e \u1fef \u0387",  # marks that decompose to ; ` ·
    "don't DON'T don’t rock'n'roll 'tis '' ``",
    "…... --- !!!??",
    # Emoji.
    "😀 a😀b 👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 ❤\ufe0f ❤ 1\ufe0f\u20e3",
    # Words of 100 and 101 characters, in one and several bytes, and before accents are dropped.
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "é" * 101,
    "e\u0301" * 100,
    "я" * 100 + " " + "я" * 101,
    "x" * 5000 + " a",
    "ab" * 50 + "." + "ab" * 51,
    # Special tokens inside the text.
    "[MASK]",
    "the [MASK] of France is paris.",
    "the[MASK]of [MASK][MASK] [mask] [ MASK ] [MASK [[MASK]] MASK]",
    "[CLS] a [SEP] b [PAD] c [UNK] d",
    "e[MASK]\u0301 [MA\u0301SK] [MASK\u0301] [MA\u200bSK]",
    "東[SEP]京",
    "a " * 40,
    "a, " * 10 + "[SEP]",
]

NOT_UTF_8 = [
    b"\xff",
    b"a\xffb caf\xe9 caf\xe9s",
    b"\xc3",
    b"ab\xe2\x82",
    b"ab\xe2\x82cd",
    b"ab\xe2\x82\xac\xac cd",
    b"a\xf0\x9f\x98b \xf0\x9f\x98\x80 \x80\x80\x80",
    b"a\xc0\x80b a\xc1\xbfb a\xe0\x80\x80b a\xf0\x80\x80\x80b",  # overlong
    b"a\xed\xa0\x80b a\xed\xbf\xbfb \xed\x9f\xbf",  # surrogates
    b"a\xf4\x90\x80\x80b a\xf8\x88\x80\x80\x80b a\xfe\xffb",  # beyond U+10FFFF
    b"[MA\xffSK] [\xc3MASK] [MASK]\xc3\xa9 \xc3[MASK]\xa9",
    bytes(range(256)),
    bytes(reversed(range(256))),
]

# Tokens that the full vocabulary doesn't have, for the settings that keep case and accents.
CASED = ["É", "##É", "##é", "ê", "##ê", "İ", "##ß", "ß", "ẞ", "Straße", "CAFÉ", "##\u0301",
         "##\u0307", "##\u0323", "##\u0302", "\u0301", "I", "##I", "K", "Å", "ὀ", "Ω", "DON", "All",
         "The", "##ς", "ς", "Ａ", "ａ", "a\u20dd", "##b\u0300", "中国", "##国", "##中"]

SETTINGS = [
    {"do_lower_case": True},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"do_lower_case": True, "tokenize_chinese_chars": False},
]
LENGTHS = [512, 2, 3, 7, 11]


def main():
    tokens = (pathlib.Path(sys.argv[1]) / "vocab.txt").read_text("utf-8").split("\n")
    if tokens[-1] == "":
        tokens.pop()
    full = {token: position for position, token in enumerate(tokens)}
    texts = [t.encode("utf-8") for t in REAL + NASTY] + NOT_UTF_8

    used = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    for setting in SETTINGS:
        tokenizer = BertTokenizer(vocab=full, **setting)
        for text in texts:
            ids = tokenizer(text.decode("utf-8", "replace"))["input_ids"]
            used.update(tokens[i] for i in ids)
    # Every beginning of a used piece that is a token itself: longest-first must pass it by.
    for token in sorted(used - {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}):
        start = 2 if token.startswith("##") and len(token) > 2 else 0
        used.update(token[:n] for n in range(start + 1, len(token)) if token[:n] in full)
    vocabulary = [token for token in tokens if token in used]
    vocabulary += [token for token in CASED if token not in used]
    reduced = {token: position for position, token in enumerate(vocabulary)}

    groups = []
    for setting in SETTINGS:
        tokenizer = BertTokenizer(vocab=reduced, **setting)
        for length in LENGTHS if setting == SETTINGS[0] else LENGTHS[:1]:
            groups.append({
                "config": setting,
                "maximum_length": length,
                "ids": [
                    tokenizer(t.decode("utf-8", "replace"), truncation=True, max_length=length)[
                        "input_ids"]
                    for t in texts
                ],
            })
    result = {
        "vocabulary": vocabulary,
        # Bytes that are not UTF-8 can't stand in JSON: those texts are in hexadecimal digits.
        "texts": REAL + NASTY,
        "texts_in_hexadecimal": [t.hex() for t in NOT_UTF_8],
        "groups": groups,
    }
    path = pathlib.Path(__file__).with_name("word_piece_golden.json")
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n", "ascii")
    print(f"{path}: {len(vocabulary)} tokens, {len(texts)} texts, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
