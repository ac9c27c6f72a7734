"""Makes all operations one route of an application."""

from graveler.api.dispatch import ApiRoute
from graveler.api.operation import API_PREFIX
from graveler.api.operations import OPERATIONS
from graveler.api.service import Service


def api_route(service: Service) -> ApiRoute:
    """Every operation, with its endpoint."""
    return ApiRoute(API_PREFIX, OPERATIONS, service)
