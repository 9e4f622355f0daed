"""A run that ends as soon as its gates are decided: the gates asked for one by one, and which row comes next."""
