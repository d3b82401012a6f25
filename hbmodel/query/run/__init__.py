"""From a plan to items: scans, gets, pages and slices."""
