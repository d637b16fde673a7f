// A library is made of what it links.
