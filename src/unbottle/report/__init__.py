"""Results of earlier runs as one HTML page, and plots of them."""
