# SPDX-License-Identifier: Apache-2.0
"""The web pages for users and operators. They are rendered here; scripts only add convenience."""

from .routes import routes as routes
