"""Random problems of every kind, most of them bad; each status is proved by a check of its own."""
