"""Tables on the terminal, pictures and the page."""
