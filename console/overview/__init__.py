"""The first page: what runs, what it costs today, what needs attention."""
