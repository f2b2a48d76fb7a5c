"""Effect of lists: events joined to the lists they came from, rates, experiments, counterfactual values.

`tastespace.online.report.report` reads a feedback store and returns a `Report`, whose tables are frames: what
`tastespace report STORE` prints and a page may draw. `attribution.attribute` is the join alone, `statistics.compare`
and `rate` the statistics, `estimators.ips` and `snips` the values of other policies from a log with propensities.
`experiments.assigned` says in which arm of an experiment somebody is.
"""
