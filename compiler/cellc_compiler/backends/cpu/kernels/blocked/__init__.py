"""Convolutions and pools of images with blocked channels."""
