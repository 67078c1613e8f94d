"""A run's folder without torch: meta.json (meta.py), safetensors (tensors.py), weights in fewer
bytes (packing.py), preparation, ranges and names (contents.py); files to write are in
gassip.runs.output."""

from gassip.runs.format.contents import PREPARATION as PREPARATION
from gassip.runs.format.contents import STATISTICS as STATISTICS
from gassip.runs.format.contents import read_ids as read_ids
from gassip.runs.format.contents import read_preparation as read_preparation
from gassip.runs.format.contents import read_statistics as read_statistics
from gassip.runs.format.meta import DECISIONS as DECISIONS
from gassip.runs.format.meta import EXPORTED as EXPORTED
from gassip.runs.format.meta import digest as digest
from gassip.runs.format.meta import given_features as given_features
from gassip.runs.format.meta import label_weight as label_weight
from gassip.runs.format.meta import labels_in_training as labels_in_training
from gassip.runs.format.meta import no_new_nodes as no_new_nodes
from gassip.runs.format.meta import on_other_graphs as on_other_graphs
from gassip.runs.format.meta import only_here as only_here
from gassip.runs.format.meta import read_file as read_file
from gassip.runs.format.meta import read_meta as read_meta
from gassip.runs.format.meta import read_rows as read_rows
from gassip.runs.format.meta import recover as recover
from gassip.runs.format.meta import soft_edges as soft_edges
from gassip.runs.format.meta import structure_of as structure_of
from gassip.runs.format.packing import Precision as Precision
from gassip.runs.format.packing import pack as pack
from gassip.runs.format.packing import rounded as rounded
from gassip.runs.format.packing import unpack as unpack
from gassip.runs.format.packing import unpacked as unpacked
from gassip.runs.format.tensors import Tensors as Tensors
from gassip.runs.format.tensors import from_bytes as from_bytes
from gassip.runs.format.tensors import read_tensors as read_tensors
from gassip.runs.format.tensors import write_tensors as write_tensors
from gassip.runs.output import check_file as check_file
from gassip.runs.output import csv_text as csv_text
from gassip.runs.output import labels_csv as labels_csv
from gassip.runs.output import real as real
from gassip.runs.output import replace_file as replace_file
