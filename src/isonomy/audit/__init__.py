"""The main job: people and a network in, what was proved and what was found out.

So far this is the bundled audit that ``make audit`` runs: a small network is trained on the German credit data and
every test applicant is compared with all counterparts that differ in protected attributes, declared proxies and the
tolerances of the schema.
"""

from isonomy.audit.bundled import BundledAudit, run_bundled_audit

__all__ = ["BundledAudit", "run_bundled_audit"]
