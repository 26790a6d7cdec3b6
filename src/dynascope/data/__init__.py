"""What networks are trained on: generated shapes, image sets from disk, and ways to spoil them."""

from dynascope.data.corruption import corrupt_labels as corrupt_labels
from dynascope.data.corruption import imbalance as imbalance
from dynascope.data.corruption import noisy_inputs as noisy_inputs
from dynascope.data.corruption import subsample as subsample
from dynascope.data.geomnist import geomnist as geomnist
from dynascope.data.images import images as images
from dynascope.data.modular import modular_arithmetic as modular_arithmetic
from dynascope.data.parity import SparseParity as SparseParity
from dynascope.data.tables import diabetes as diabetes
