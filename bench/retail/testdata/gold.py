"""gold.py CHECKOUT DATA: does the gold actions of DATA with the tools of a checkout of tau2-bench, and prints a line of JSON a task."""
import importlib.abc, importlib.machinery, json, sys, types

class Stand(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that the toolkit imports and that calls of tools do not use."""
    names = {"loguru", "docstring_parser", "addict", "deepdiff", "dotenv", "toml", "yaml"}
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in self.names else None
    def create_module(self, spec):
        m = types.ModuleType(spec.name)
        class Anything:
            def __init__(self, *a, **k): pass
            def __call__(self, *a, **k): return None
            def __getattr__(self, n): return Anything()
        m.__getattr__ = lambda n: Anything() if not n.startswith("__") else (_ for _ in ()).throw(AttributeError(n))
        return m
    def exec_module(self, m): pass

sys.meta_path.append(Stand())
root, data = sys.argv[1], sys.argv[2]
package = types.ModuleType("tau2")  # without its __init__, which imports the whole of the benchmark
package.__path__ = [root + "/src/tau2"]
sys.modules["tau2"] = package
from tau2.domains.retail.tools import RetailTools
from tau2.domains.retail.data_model import RetailDB
raw = open(data + "/data/tau2/domains/retail/db.json").read()
def text(v):
    return v if isinstance(v, str) else json.dumps(v.model_dump())
for task in json.load(open(data + "/data/tau2/domains/retail/tasks.json")):
    tools = RetailTools(RetailDB.model_validate_json(raw))
    answers = []
    for a in (task["evaluation_criteria"] or {}).get("actions") or []:
        try:
            answers.append(text(tools.use_tool(a["name"], **a["arguments"])))
        except Exception as e:
            answers.append("Error: " + str(e))
    print(json.dumps({"id": task["id"], "hash": tools.get_db_hash(), "answers": answers}))
