"""DoDo: X. Wu, *Dynamic Load Balancing and Autoscaling in Distributed Stream Processing Systems* (2015)."""
