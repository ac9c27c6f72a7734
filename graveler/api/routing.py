"""Makes the whole table of routes one route of an application."""

from graveler.api.dispatch import ApiRoute
from graveler.api.endpoints import ENDPOINTS
from graveler.api.routes import API_PREFIX, ROUTES
from graveler.api.service import Service


def api_route(service: Service) -> ApiRoute:
    """Every row of the table, with its endpoint."""
    return ApiRoute(API_PREFIX, ROUTES, ENDPOINTS, service)
