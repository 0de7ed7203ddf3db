"""Pascal: proactive scaling of streams, published beside ours (``ebbflow bench pascal``)."""
