#!/usr/bin/env bash
# Makes a site of the pages: build/docs-site/index.html. Usage: docs_site.sh [arguments of mkdocs build]
# Its search needs a server: python3 -m http.server --directory build/docs-site
# Debian: apt-get install mkdocs mkdocs-material
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v mkdocs >/dev/null; then
  echo "docs_site: mkdocs was not found. On Debian or Ubuntu: apt-get install mkdocs mkdocs-material" >&2
  exit 1
fi

# The pages keep their paths, so that their links do not change. Other files that they link to are copied beside them; a folder with a link to it gets
# a page that lists its files.
python3 - build/docs-pages <<'PYTHON'
import pathlib, re, shutil, sys

root, stage = pathlib.Path.cwd(), pathlib.Path(sys.argv[1]).resolve()
shutil.rmtree(stage, ignore_errors=True)
pages = [page for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md") for page in sorted(root.glob(pattern))]
others = set()
for page in pages:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        file = (page.parent / target).resolve()
        if not re.match(r"[a-z]+:", target) and file.exists() and root in file.parents and file.suffix != ".md":
            others.add(file)
            if file.is_dir():
                text = re.sub(r"\]\(" + re.escape(target) + r"/?\)", "](" + target.rstrip("/") + "/README.md)", text)
    copy = stage / page.relative_to(root)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text)
for file in sorted(others):
    copy = stage / file.relative_to(root)
    if not file.is_dir():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    elif not (copy / "README.md").exists():
        copy.mkdir(parents=True, exist_ok=True)
        files = sorted(one for one in file.iterdir() if one.is_file())
        for one in files:
            shutil.copy(one, copy)
        (copy / "README.md").write_text(f"# {file.relative_to(root)}\n\n" + "".join(f"- [{one.name}]({one.name})\n" for one in files))
shutil.copy(root / "scripts" / "docs_site.css", stage / "site.css")
PYTHON

mkdocs build --strict --quiet "$@"
