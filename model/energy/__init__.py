"""Energy and area of components: given by the user, from an Accelergy ERT and ART, or estimated."""

from model.energy.components import AREA_SCALES, CompoundClass, CompoundClasses, load_compound_classes
from model.energy.estimator import ESTIMATED_ATTRIBUTES, dram_hint
from model.energy.given import GIVEN_KEYS, EnergyTables, GivenPrices, load_tables, read_given
from model.energy.pricing import price_component
from model.energy.request import ComponentPrices, EnergyError, EnergyRequest

__all__ = [
    "AREA_SCALES",
    "ESTIMATED_ATTRIBUTES",
    "GIVEN_KEYS",
    "ComponentPrices",
    "CompoundClass",
    "CompoundClasses",
    "EnergyError",
    "EnergyRequest",
    "EnergyTables",
    "GivenPrices",
    "dram_hint",
    "load_compound_classes",
    "load_tables",
    "price_component",
    "read_given",
]
