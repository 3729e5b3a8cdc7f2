"""What stands around every page: navigation by role, policy version and workers, theme, error pages."""
