# SPDX-License-Identifier: MIT
"""English date expressions: their ids, and a generator of them with their answers.

Conventions. Numbers alone are day, month, year ("5/3/19" is 5 March 2019), unless the year comes first
("2019/3/5") or the second number can't be a month ("12/17/2019"). Years of two digits are 1950 to 2049.

Ids: 0 padding, 1 start, 2 end, 3 any character that is not in ALPHABET, 4 + i character i of it. ASCII
letters count as lower case.
"""

import datetime
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
PADDING, START, END, UNKNOWN = range(4)
ALPHABET = " 0123456789abcdefghijklmnopqrstuvwxyz',-./:;()"
VOCAB_SIZE = 4 + len(ALPHABET)
ID_OF = {c: 4 + i for i, c in enumerate(ALPHABET)}
ID_OF |= {c.upper(): i for c, i in ID_OF.items()}

FIRST_DAY, LAST_DAY = datetime.date(1700, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()


def encode(text):
    """Ids of a text, with the end."""
    return [ID_OF.get(c, UNKNOWN) for c in text] + [END]


def decode(ids):
    """Text of ids, up to the end."""
    ids = ids[:ids.index(END)] if END in ids else ids
    return "".join(ALPHABET[i - 4] if i >= 4 else "?" for i in ids)


def part_of(day):
    """Where the date of an ordinal day belongs: of 25 dates 1 is held out, of 100 1 is for trials."""
    share = day * 2654435761 % 2**32 / 2**32
    return "held out" if share < 0.04 else "trial" if share < 0.05 else "training"


def read_written(path=HERE / "written.txt"):
    """[(date, text), ...] as in the file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


MONTHS = ("January February March April May June July August September October November "
          "December").split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
SHORT_WEEKDAYS = [["Mon"], ["Tue", "Tues"], ["Wed", "Weds"], ["Thu", "Thur", "Thurs"], ["Fri"], ["Sat"],
                  ["Sun"]]
UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
         "sixteen seventeen eighteen nineteen").split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
            "nine": "ninth", "twelve": "twelfth"}
BEFORE = ("on", "by", "due", "due by", "dated", "date:", "Date:", "from", "since", "until", "till",
          "before", "after", "as of", "born", "born on", "b.", "d.", "DOB", "DOB:", "d.o.b.", "starts",
          "starting", "ends", "ending", "valid until", "expires", "expires:", "effective", "posted",
          "Posted:", "updated", "released", "issued", "signed", "arrives", "paid", "sent", "for", "in",
          "it was", "this is", "that was", "I think", "about", "not before", "no later than", "week of",
          "morning of", "evening of", "night of", "meeting on", "the", "delivered", "when:", "@", "->")
AFTER = (".", ",", "!", "?", " AD", " A.D.", " at noon", " in the morning", " (evening)", " or so",
         " please", " (approx)", " ok?", ";", ":", " -", " was the day", " onwards", " at the latest")
NEIGHBOURS = {c: row[max(0, i - 1):i] + row[i + 1:i + 2]
              for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm") for i, c in enumerate(row)}


def number_words(n):
    if n < 20:
        return UNITS[n]
    return TENS[n // 10] + ("-" + UNITS[n % 10] if n % 10 else "")


def ordinal_words(n):
    head, _, last = number_words(n).rpartition("-")
    last = ORDINALS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return head + "-" + last if head else last


def ordinal(n):
    return str(n) + ("th" if n in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th"))


class Generator:
    """Expressions for the dates of one part ("training", "trial", "held out"), never for those of
    written.txt."""

    def __init__(self, part, seed):
        self.random = random.Random(f"{part} {seed}")
        written = {datetime.date.fromisoformat(date).toordinal() for date, _ in read_written()}
        self.days = {day for day in range(FIRST_DAY, LAST_DAY + 1)
                     if day not in written and part_of(day) == part}

    def __call__(self):
        """(expression, date as ISO 8601 has it)"""
        date = self.date()
        kind = self.random.random()
        text = self.numbers(date) if kind < 0.25 else self.words(date)
        return self.noise(self.surround(text, date)), date.isoformat()

    # Small helpers: one of several, and whether a thing of this probability happens.
    def one(self, *options):
        return options[int(self.random.random() * len(options))]

    def happens(self, probability):
        return self.random.random() < probability

    def date(self):
        first, last = self.one((1950, 2049), (1950, 2049), (1950, 2049), (1980, 2039), (1980, 2039),
                               (1850, 1999), (1700, 2099))
        while True:
            day = self.random.randint(datetime.date(first, 1, 1).toordinal(),
                                      datetime.date(last, 12, 31).toordinal())
            if day in self.days:
                return datetime.date.fromordinal(day)

    def year(self, date, short):
        """`short`: probability of two digits, where they are enough."""
        if 1950 <= date.year <= 2049 and self.happens(short):
            return f"{date.year % 100:02}"
        return str(date.year)

    def year_words(self, year):
        century, rest = divmod(year, 100)
        if 2000 <= year < 2010 or year < 2100 and century == 20 and self.happens(0.4):
            return "two thousand" + (self.one(" ", " and ") + number_words(rest) if rest else "")
        if rest == 0:
            return number_words(century) + " hundred"
        if rest < 10:
            return number_words(century) + self.one(" oh ", " o ", " hundred and ") + UNITS[rest]
        return number_words(century) + " " + number_words(rest)

    def month(self, date, short):
        name = MONTHS[date.month - 1]
        if not self.happens(short) or len(name) < 4:
            return name
        cut = "Sept" if name == "September" and self.happens(0.5) else name[:3]
        return cut + ("." if self.happens(0.2) else "")

    def weekday(self, date):
        if self.happens(0.5):
            return WEEKDAYS[date.weekday()]
        return self.one(*SHORT_WEEKDAYS[date.weekday()]) + ("." if self.happens(0.15) else "")

    def numbers(self, date):
        y, m, d = date.year, date.month, date.day
        separator = self.one("/", "/", "/", ".", ".", "-", "-", " ", " / ", ". ")
        form = self.random.random()
        pad = self.happens(0.5)
        day, month = (f"{n:02}" if pad or self.happens(0.1) else str(n) for n in (d, m))
        if form < 0.1:
            return f"{y}{m:02}{d:02}" if self.happens(0.3) else date.isoformat()
        if form < 0.3:
            return separator.join((str(y), month, day))
        if form < 0.4 and d > 12:
            return separator.join((month, day, self.year(date, 0.3)))
        return separator.join((day, month, self.year(date, 0.4)))

    def words(self, date):
        short = self.happens(0.5)
        month = self.month(date, 1.0 if short else 0.0)
        form = self.random.random()
        if form < 0.07:  # 05-Mar-2019, 5Mar19, 5/March/2019
            separator = self.one("-", "-", "-", "/", ".", "", " - ")
            day = self.one(str(date.day), f"{date.day:02}")
            return separator.join((day, month.rstrip("."), self.year(date, 0.4)))
        day = self.one(str(date.day), str(date.day), ordinal(date.day), ordinal(date.day),
                       f"{date.day:02}")
        if self.happens(0.1):
            day = ordinal_words(date.day)
            if self.happens(0.3):
                day = day.replace("-", " ")
        if self.happens(0.07):
            year = self.year_words(date.year)
            if self.happens(0.3):
                year = year.replace("-", " ")
        else:
            year = self.year(date, 0.25)
            if len(year) == 2 and self.happens(0.6):
                year = "'" + year
        if form < 0.13:  # 2019 March 5
            return f"{date.year}{self.one(' ', ', ', ' ')}{month} {self.one('', '', 'the ')}{day}"
        if form < 0.5:  # March 5, 2019
            return (month + self.one(" ", " ", " ", " the ") + day
                    + self.one(", ", ", ", " ", " ", ",", " of ", " in ") + year)
        article = self.one("the ", "the ", "this ", "The ") if self.happens(0.25) else ""
        glue = self.one(" ", " ", " ", " of ", " of ", " day of ", ", ")
        if glue == " day of " and not day[-1].isalpha():
            glue = " "
        return article + day + glue + month + self.one(" ", " ", " ", ", ", ", ", ",") + year

    def surround(self, text, date):
        if self.happens(0.3):
            weekday = self.weekday(date)
            form = self.random.random()
            if form < 0.8:
                article = "" if text[:4].lower() in ("the ", "this") else self.one("", "", "the ")
                text = weekday + self.one(" ", " ", ", ", ", ", ",") + article + text
            elif form < 0.9:
                text += self.one(" ({})", ", {}", " {}", ", a {}", " - {}").format(weekday)
            else:
                text = f"({weekday}) {text}"
        if self.happens(0.07):
            text = self.time_of_day(text)
        if self.happens(0.15):
            text = self.one(*BEFORE) + " " + text
        if self.happens(0.1):
            text += self.one(*AFTER)
        return text

    def time_of_day(self, text):
        hour, minute, second = (self.random.randrange(n) for n in (24, 60, 60))
        twelve = f"{hour % 12 or 12}"
        half = self.one("am", "pm", " am", " pm", " a.m.", " p.m.")
        time = self.one(f"{hour:02}:{minute:02}", f"{hour}:{minute:02}", twelve + half,
                        f"{twelve}:{minute:02}{half}", f"{hour:02}:{minute:02}:{second:02}")
        zone = self.one("", "", "", "", " GMT", " UTC", "Z", " +0000", f" +0{self.random.randrange(10)}00",
                        " EST", " CET")
        form = self.random.random()
        if form < 0.15:
            return time + self.one(" ", ", ", " on ") + text
        if form < 0.5 and text[:4].isdigit() and text[-1].isdigit():
            return f"{text}T{hour:02}:{minute:02}" + self.one("", "Z", f":{second:02}", f":{second:02}Z")
        return text + self.one(" ", " ", ", ", " at ", " @ ", " - ") + time + zone

    def noise(self, text):
        """Upper and lower case, slips of the keyboard in words, spaces."""
        case = self.random.random()
        if case < 0.25:
            text = text.lower()
        elif case < 0.35:
            text = text.upper()
        if self.happens(0.12):
            words = text.split(" ")
            places = [i for i, word in enumerate(words) if len(word) >= 4 and word.strip(",.").isalpha()]
            if places:
                place = self.one(*places)
                words[place] = self.slip(words[place])
                text = " ".join(words)
        if self.happens(0.05):
            place = text.find(" ")
            if place > 0 and not text[place - 1].isdigit():
                text = text[:place] + text[place + 1:]
        if self.happens(0.05):
            text = text.replace(" ", self.one("  ", "  ", "\u00a0", "_"), self.one(1, 2, -1))
        if self.happens(0.1):
            text = text.replace("'", self.one("\u2019", "\u2018", "`", ""))
            text = text.replace("-", self.one("\u2013", "-"))
        if self.happens(0.05):
            text = self.one(" " + text, text + " ", f'"{text}"', f"({text})", f"[{text}]", text + "\r")
        return text

    def slip(self, word):
        """One letter lost, doubled, exchanged with the next, or replaced or joined by a neighbour."""
        i = self.random.randrange(1, len(word) - 1)
        before, c, after = word[:i], word[i], word[i + 1:]
        near = NEIGHBOURS.get(c.lower(), "") or c
        near = self.one(*near)
        return self.one(before + after, before + c + c + after, before + after[0] + c + after[1:],
                        before + near + after, before + c + near + after, before + near + c + after)


if __name__ == "__main__":
    generator = Generator("training", 1)
    for _ in range(40):
        print("{1}  {0}".format(*generator()))
