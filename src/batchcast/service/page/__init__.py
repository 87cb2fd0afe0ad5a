# SPDX-License-Identifier: Apache-2.0
"""The page: what users, and operators, look at. Rendered here; scripts only make it livelier."""

from .routes import routes as routes
