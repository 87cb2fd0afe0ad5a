"""Update and compile the German catalogue from the pages' texts: python -m tools.catalogue."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from batchcast.formats.slurm.reasons import A_LIMIT, NODES_DOWN, PARTS, WORDS
from batchcast.service.answers.answer import STALE
from batchcast.service.answers.fair_share import SENTENCES as PASSES
from batchcast.service.answers.questions import NOT_YET
from batchcast.service.answers.start import SENTENCES as MOVED
from batchcast.service.answers.usage import ADVICE
from batchcast.service.page.jobs import NOT_HEARD
from batchcast.service.page.routes import VIEWS
from batchcast.service.page.texts import DAYS

SOURCE = Path(__file__).parents[1] / "src" / "batchcast"
PLACE = SOURCE / "locale" / "de" / "LC_MESSAGES" / "batchcast.po"
METHODS = [("service/page/templates/**.j2", "jinja2")]
OPTIONS = {"service/page/templates/**.j2": {"trim_blocks": "true", "lstrip_blocks": "true"}}
ALSO = (
    *(
        "ok",
        "warning",
        "failed",
        "submission",
        "its release",
        "its begin time",
        "the end of the jobs that it depends on",
    ),
    *(
        "an administrator's action",
        "never: it cannot start as it is",
        "the end of the limit or reservation that holds it",
    ),
    *("as requested", "with the suggested limit", "with the suggested limit and memory"),
    *("half the size", "twice the size"),
    *("the end of jobs under the same limit", "the end of the reservation"),
)
SENTENCES = (A_LIMIT, NODES_DOWN, *PARTS, *STALE, NOT_YET.template, NOT_HEARD, *ADVICE, *MOVED, *PASSES)


def wanted() -> Catalog:
    """Return every text of the pages, including texts that come from answers."""
    catalogue = Catalog()
    for _, _, message, _, _ in extract_from_dir(str(SOURCE), METHODS, OPTIONS):
        catalogue.add(message)
    for message in (*WORDS.values(), *(title for _, title in VIEWS), *DAYS, *ALSO, *SENTENCES):
        catalogue.add(message)
    return catalogue


def current(text: bytes) -> tuple[bytes, list[str]]:
    """Return the catalogue with exactly the wanted texts, and the texts without a translation."""
    kept, fresh = read_po(BytesIO(text)), wanted()
    then = datetime(2026, 1, 1, tzinfo=UTC)  # fixed, so that equal texts give an equal file
    new = Catalog(
        creation_date=then, revision_date=then, locale="de", header_comment="# German texts of the pages.", fuzzy=False
    )
    new.mime_headers = [("Content-Type", "text/plain; charset=utf-8"),
                        ("Plural-Forms", "nplurals=2; plural=(n != 1)")]  # fmt: skip
    missing = []
    for message in sorted(filter(lambda m: m.id, fresh), key=lambda m: str(m.id)):
        old = kept.get(message.id if isinstance(message.id, str) else message.id[0])
        string = old.string if old is not None else ""
        if not string or (isinstance(string, tuple) and not all(string)):
            missing.append(str(message.id))
        new.add(message.id, string)
    out = BytesIO()
    write_po(out, new, width=110, omit_header=False, no_location=True)
    return out.getvalue(), missing


def main() -> int:
    """Write the .po and the .mo; return 1 if a text has no translation."""
    text, missing = current(PLACE.read_bytes())
    PLACE.write_bytes(text)
    with PLACE.with_suffix(".mo").open("wb") as file:
        write_mo(file, read_po(BytesIO(text)))
    for message in missing:
        print(f"no German text: {message}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    raise SystemExit(main())
