"""HTTP client for model services: endpoints, retries, cancellation, error mapping."""
