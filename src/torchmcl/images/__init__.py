"""Image classification: digits and MNIST files, small networks, and the study of five methods."""
