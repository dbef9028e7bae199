"""How answers are shown: charts as numbers and as pictures, and the document that programs read."""
