# SPDX-License-Identifier: Apache-2.0
"""The hazard model: features of a waiting job, the model of when it starts, and the predicted wait distribution."""
