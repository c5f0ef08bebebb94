"""Pretraining on documents: next-token prediction, masked language modelling, span corruption."""
