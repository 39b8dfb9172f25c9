"""Certificates: what a proof of optimality claims, as JSON that others can check."""

from solver.certificate.canonical import CertificateError, canonical, canonical_sha256, canonical_text
from solver.certificate.document import Claims, certificate, certificate_text, check_certifiable

__all__ = [
    "CertificateError",
    "Claims",
    "canonical",
    "canonical_sha256",
    "canonical_text",
    "certificate",
    "certificate_text",
    "check_certifiable",
]
