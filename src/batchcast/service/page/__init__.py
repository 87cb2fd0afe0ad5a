# SPDX-License-Identifier: Apache-2.0
"""The web pages for users and operators. The server renders the pages; JavaScript only adds convenience."""

from .routes import routes as routes
