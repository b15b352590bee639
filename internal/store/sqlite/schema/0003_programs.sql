-- Version 3: an index less to write for each process. docs/schema.md explains every table; change the two together.

-- Which programs nobody runs any more is found by looking at all processes, when something was pruned.
DROP INDEX processes_by_program;
