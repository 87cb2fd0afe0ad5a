"""Third-party scripts and styles of the pages, unchanged; `browser/VENDORED.toml` names package, licence and digest."""
