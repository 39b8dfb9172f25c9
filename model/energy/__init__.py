"""Energy and area of components: given by the user, from an Accelergy ERT and ART, or estimated."""

from model.energy.request import EnergyError, EnergyRequest, Prices

__all__ = ["EnergyError", "EnergyRequest", "Prices"]
