"""The chain's equations and figures. Source: spring-block."""
