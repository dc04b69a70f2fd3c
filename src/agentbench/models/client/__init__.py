"""The client for model services over HTTP: endpoints, retries, error mapping and cancellation."""
