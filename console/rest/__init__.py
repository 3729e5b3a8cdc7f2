"""What the management API's views share: who asks, what may be sent, how errors are told, how lists are paged."""
