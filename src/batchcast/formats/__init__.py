"""Text and bytes to tables, without opening anything."""
