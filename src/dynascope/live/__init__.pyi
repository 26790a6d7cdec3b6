from dynascope.live.server import serve as serve

__all__: list[str]
