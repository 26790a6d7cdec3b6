"""A chain of spring-coupled blocks with asymmetric friction and noise: which layers learn.

`equations` holds the steps of the three dynamics, `closed_form` what is known without simulating,
`chain` the model that users meet.
"""

from dynascope.models.spring_block.chain import CITE, SpringBlock

__all__ = ["CITE", "SpringBlock"]
