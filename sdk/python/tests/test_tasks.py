"""Background tasks are processes: many, cancelled, surviving their kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import unittest
from typing import Any
from unittest import mock

import support
from agentkernel import Client, KernelGone, TaskManager, _kernel, _steps, _sync, create_agent, errors

SLEEP = "from kernel import sleep\nprint('begin')\nsleep({})\nprint('end')\n'done'"


class Tasks(support.KernelTest):
    def test_a_hundred_tasks(self) -> None:
        for i in range(100):
            self.write(f"ws/file_{i}.csv", f"name,value\na,{i}\nb,{2 * i}\n")
        manager = TaskManager(create_agent(workspace_dir=self.path("ws")))
        begin = time.monotonic()
        ids = [manager.dispatch_task(f"import csv\nsum(int(row['value']) for row in csv.DictReader(open('file_{i}.csv')))") for i in range(100)]
        dispatched = time.monotonic() - begin
        results = [manager.wait_for_task(i) for i in ids]
        print(f"\n100 tasks: dispatched in {dispatched:.2f} s, all done after {time.monotonic() - begin:.2f} s", file=sys.stderr)
        self.assertEqual(len(set(ids)), 100)
        for i, r in enumerate(results):
            self.assertEqual((r.success, r.result), (True, 3 * i), r.error)
        self.assertEqual({s.status for s in manager.list_tasks()}, {"completed"})
        self.assertEqual([s.task_id for s in manager.list_tasks()], ids)
        known = {p.pid for p in self.client.ps(all=True)}
        self.assertLessEqual(set(ids), known)  # they are in ps like any process

    def test_status(self) -> None:
        manager = TaskManager()
        i = manager.dispatch_task(SLEEP.format(60))
        support.eventually("it runs", lambda: manager.get_task_status(i).status == "running")
        self.assertFalse(manager.get_task_status(i).done)
        with self.assertRaises(errors.Timeout):
            manager.wait_for_task(i, timeout=0.05)
        self.client.pause(i)
        support.eventually("it is paused", lambda: manager.get_task_status(i).status == "paused")
        self.client.resume(i)
        self.assertTrue(manager.cancel_task(i))
        self.assertEqual(manager.get_task_status(i).status, "cancelled")
        self.assertFalse(manager.cancel_task(i))
        r = manager.wait_for_task(i)
        assert r.error is not None
        self.assertEqual((r.success, r.output, r.error.code), (False, "begin\n", "killed"))
        failed = manager.dispatch_task("1 / 0")
        manager.wait_for_task(failed)
        self.assertEqual(manager.get_task_status(failed).status, "failed")
        limited = manager.dispatch_task("while True: pass", timeout=0.2)
        manager.wait_for_task(limited)
        self.assertEqual(manager.get_task_status(limited).status, "failed")
        self.assertIn("cancelled", repr(manager.list_tasks()[0]))

    def test_cancel_really_stops_it(self) -> None:
        manager = TaskManager()
        i = manager.dispatch_task("while True: pass")
        support.eventually("it runs", lambda: manager.get_task_status(i).status == "running")
        begin = time.monotonic()
        manager.cancel_task(i)
        took = time.monotonic() - begin
        self.assertEqual(self.client.process(i).state, "killed")
        print(f"\ncancel of a computing task: {took * 1000:.0f} ms", file=sys.stderr)

    def test_refusals_and_unknown_ids(self) -> None:
        manager = TaskManager()
        before = len(self.client.ps(all=True))
        refused = [manager.dispatch_task(task) for task in ("write a poem", "import no_such_module", "print('")]
        self.assertEqual([i < 0 for i in refused], [True] * 3)
        results = manager.wait_for_all(refused)
        self.assertEqual([(r.success, r.pid, r.state) for r in results], [(False, None, "refused")] * 3)
        self.assertEqual([type(r.error) for r in results], [errors.Unsupported, errors.Unsupported, errors.ProgramSyntaxError])
        self.assertEqual([r.mode for r in results], ["template", "code", "code"])
        for i in refused:
            status = manager.get_task_status(str(i))  # type: ignore[arg-type]  # as text, too
            self.assertEqual((status.status, status.done), ("failed", True))
            self.assertIsNotNone(status.error)
            self.assertFalse(manager.cancel_task(i))
            with self.assertRaises(errors.KernelError):
                list(manager.stream_task(i))
            with self.assertRaises(errors.InvalidArgument):  # ids below zero are this manager's own
                TaskManager().get_task_status(i)
        self.assertEqual([s.task_id for s in manager.list_tasks()], refused)
        self.assertEqual(len(self.client.ps(all=True)), before)
        with self.assertRaises(errors.InvalidArgument):  # what is wrong with the call is raised
            manager.dispatch_task(5)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            manager.dispatch_task("1 + 1", no_such_option=1)
        manager = TaskManager()
        for verb in (manager.get_task_status, manager.wait_for_task, manager.cancel_task):
            with self.assertRaises(errors.NotFound):
                verb(999_999)
            with self.assertRaises(errors.InvalidArgument):
                verb("x")  # type: ignore[arg-type]
        self.assertEqual(manager.list_tasks(), [])

    def test_another_interpreter_collects(self) -> None:
        i = TaskManager().dispatch_task(SLEEP.format(0.2))
        program = f"from agentkernel import TaskManager\nm = TaskManager()\nprint(m.wait_for_task({i}).result, {i} in [t.task_id for t in m.list_tasks(all=True)])"
        env = {**os.environ, "PYTHONPATH": str(support.SDK / "src")}
        out = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((out.stdout, out.stderr), ("done True\n", ""))

    def test_state_is_taken_over_once(self) -> None:
        agent = create_agent(state_enabled=True)
        manager = TaskManager(agent)
        ids = [manager.dispatch_task(f"from kernel import state\nstate.set('k{n}', {n})") for n in range(5)]
        manager.wait_for_all(ids)
        self.assertEqual(agent.state, {f"k{n}": n for n in range(5)})
        agent.state["k1"] = "mine"
        manager.wait_for_task(ids[1])
        self.assertEqual(agent.state["k1"], "mine")

    def test_stream(self) -> None:
        manager = TaskManager()
        i = manager.dispatch_task(SLEEP.format(0.1))
        self.assertEqual("".join(e.text for e in manager.stream_task(i)), "begin\nend\n")


def during_a_receive(action: Any) -> Any:
    """Patches the transport: the first time that an answer is waited for, ``action`` runs meanwhile."""
    real, first = _sync.Run._receive, threading.Event()

    def receive(self: Any, step: _steps.Receive) -> bytes:
        if not first.is_set():
            first.set()
            threading.Thread(target=action).start()
        return real(self, step)

    return mock.patch.object(_sync.Run, "_receive", receive)


class Crash(support.KernelTest):
    """kill -9 of the kernel: the SDK says what happened and how to go on, and recover goes on."""

    def says_how_to_go_on(self, e: errors.KernelError, pid: int) -> None:
        self.assertEqual(e.pid, pid)
        for words in (f"client.recover({pid})", f"client.result({pid})", f"agentkernel recover {pid}"):
            self.assertIn(words, e.hint)
        self.assertNotRegex(str(e), "again|retry")

    def test_killed_while_waiting(self) -> None:
        pid = self.client.spawn(SLEEP.format(0.5)).pid
        support.eventually("it has begun", lambda: list(self.client.logs(pid)))
        os_pid = self.client.info().os_pid
        with during_a_receive(lambda: os.kill(os_pid, 9)), self.assertRaises(KernelGone) as caught:
            self.client.wait(pid)
        e = caught.exception
        self.assertEqual(e.pid, pid)
        self.assertIn(f"while process {pid} was waited for", e.message)
        self.says_how_to_go_on(e, pid)
        support.eventually("the killed kernel is gone", lambda: support.gone(os_pid))
        with self.assertRaises(errors.Conflict) as again:  # a new kernel carries nothing on unasked
            self.client.wait(pid)
        self.assertIn(f"recover({pid})", again.exception.hint)
        self.assertEqual(self.client.process(pid).state, "unfinished")
        self.assertEqual([p.pid for p in self.client.recover(pid)], [pid])
        end = self.client.wait(pid)
        self.assertEqual((end.result, end.recoveries), ("done", 1))
        self.assertEqual(self.client.result(pid).output, "begin\nend\n")  # nothing is told twice

    def test_killed_while_streaming(self) -> None:
        texts = []
        with self.assertRaises(KernelGone) as caught:
            for event in self.client.stream(SLEEP.format(0.5)):
                texts.append(event.text)
                if event.kind == "output":
                    self.kill_kernel()
        self.assertIn("was watched", caught.exception.message)
        self.assertEqual("".join(texts), "begin\n")
        self.client.recover(caught.exception.pid)
        self.assertEqual(self.client.result(caught.exception.pid).output, "begin\nend\n")

    def test_killed_while_running(self) -> None:
        with self.assertRaises(KernelGone) as caught:
            self.client.run(SLEEP.format(0.5), on_output=lambda event: self.kill_kernel())
        self.client.recover(caught.exception.pid)
        self.assertEqual(self.client.result(caught.exception.pid).result, "done")

    def test_the_same_call_with_the_key(self) -> None:
        """It continues an unfinished process, gives the result of one that has ended, and makes no second one."""
        agent = create_agent()

        def killing(event: Any) -> None:
            if event.kind == "output":
                self.kill_kernel()

        for name, call, options in [
            ("run", self.client.run, {"on_output": killing}),
            ("execute_code", agent.execute_code, {"on_output": killing}),
            ("execute_task", agent.execute_task, {"on_output": killing}),
        ]:
            with self.subTest(name=name):
                before = {p.pid for p in self.client.ps(all=True)}
                with self.assertRaises(KernelGone) as caught:
                    call(SLEEP.format(0.5), **options)  # type: ignore[operator]
                key = caught.exception.idempotency_key
                self.assertTrue(key)
                self.assertIn(repr(key), caught.exception.hint)
                for _ in ("unfinished", "ended"):
                    result = call(SLEEP.format(0.5), idempotency_key=key)  # type: ignore[operator]
                    self.assertEqual((result.pid, result.output, result.result), (caught.exception.pid, "begin\nend\n", "done"))
                self.assertEqual({p.pid for p in self.client.ps(all=True)} - before, {result.pid})
        with self.assertRaises(KernelGone) as caught:
            for event in self.client.stream(SLEEP.format(0.5)):
                killing(event)
        texts = [event.text for event in self.client.stream(SLEEP.format(0.5), idempotency_key=caught.exception.idempotency_key) if event.kind == "output"]
        self.assertEqual("".join(texts), "begin\nend\n")

    def test_a_task_names_its_key(self) -> None:
        manager = TaskManager(create_agent())
        task = manager.dispatch_task(SLEEP.format(0.5))
        support.eventually("it has begun", lambda: list(self.client.logs(task)))
        os_pid = self.client.info().os_pid
        with during_a_receive(lambda: os.kill(os_pid, 9)), self.assertRaises(KernelGone) as caught:
            manager.wait_for_task(task)
        support.eventually("the killed kernel is gone", lambda: support.gone(os_pid))
        self.assertEqual(manager.dispatch_task(SLEEP.format(0.5), idempotency_key=caught.exception.idempotency_key), task)
        manager.recover()
        self.assertEqual(manager.wait_for_task(task).result, "done")

    def test_an_empty_key_is_refused(self) -> None:
        before = len(self.client.ps(all=True))
        for call in (self.client.run, self.client.spawn, create_agent().execute_task, TaskManager(create_agent()).dispatch_task):
            with self.assertRaises(errors.InvalidArgument):
                call("print(1)", idempotency_key="")  # type: ignore[operator]
        self.assertEqual(len(self.client.ps(all=True)), before)

    def test_stopped_while_waiting(self) -> None:
        """An orderly end says the same."""
        pid = self.client.spawn(SLEEP.format(0.5)).pid
        os_pid = self.client.info().os_pid
        with during_a_receive(Client(self.home).shutdown), self.assertRaises(KernelGone):
            self.client.wait(pid)
        support.eventually("the kernel is gone", lambda: support.gone(os_pid))
        self.client.recover()
        self.assertEqual(self.client.wait(pid).result, "done")

    def replace_kernel(self) -> None:
        """Another kernel takes the place of this one before anybody notices."""
        self.kill_kernel()
        Client(self.home).info()

    def test_another_kernel_took_its_place(self) -> None:
        """The new one does not carry the process on: that is no end of it, and no result."""
        for how in (self.kill_kernel, lambda: self.client.shutdown(), self.replace_kernel):
            with self.assertRaises(KernelGone) as caught:
                self.client.run(SLEEP.format(0.5), on_output=lambda event, how=how: how())  # type: ignore[misc]
            self.says_how_to_go_on(caught.exception, caught.exception.pid)
            pid = caught.exception.pid
            with self.assertRaises(errors.Conflict) as unfinished:  # nor does following it end as if it had
                list(self.client.logs(pid, follow=True))
            self.says_how_to_go_on(unfinished.exception, pid)
            self.client.recover(pid)
            self.assertEqual(self.client.result(pid).output, "begin\nend\n")
            again = self.client.spawn(SLEEP.format(0.5)).pid
            with self.assertRaises(KernelGone) as caught:
                for event in self.client.logs(again, follow=True):
                    how()
            self.says_how_to_go_on(caught.exception, again)
            self.client.recover(again)
            self.assertEqual(self.client.wait(again).result, "done")

    def test_an_answer_that_was_lost(self) -> None:
        """What is asked of a process is not asked twice unseen: the error names it and what is not known."""
        pid = self.client.spawn(SLEEP.format(30)).pid
        cut = mock.patch.object(_kernel.Kernel, "_exchange", side_effect=_steps.ConnectionCut("cut"))
        for call, says in [
            (lambda: self.client.apply(pid), f"client.apply({pid}) again finishes"),
            (lambda: self.client.discard(pid), f"client.diff({pid})"),
            (lambda: self.client.answer(pid, 1, "yes"), f"client.recover({pid})"),
            (lambda: self.client.kill(pid), f"client.process({pid})"),
        ]:
            with cut, self.assertRaises(KernelGone) as caught:
                call()  # type: ignore[no-untyped-call]
            self.assertEqual(caught.exception.pid, pid)
            self.assertIn("is not known", caught.exception.message)
            self.assertIn(says, caught.exception.hint)
        self.client.kill(pid)

    def test_fifty_tasks_in_flight(self) -> None:
        manager = TaskManager(create_agent(state_enabled=True))
        ids = [manager.dispatch_task(f"from kernel import sleep, state\nfor i in range(5):\n    print({n}, i)\n    sleep(0.1)\nstate.set('t{n}', {n})") for n in range(50)]
        self.kill_kernel()
        self.assertEqual({manager.get_task_status(i).status for i in ids} - {"completed"}, {"unfinished"})
        recovered = manager.recover()
        self.assertGreater(len(recovered), 0)
        for n, i in enumerate(ids):
            r = manager.wait_for_task(i, timeout=60)
            self.assertEqual(r.check().output, "".join(f"{n} {k}\n" for k in range(5)))
        self.assertEqual(manager.agent.state, {f"t{n}": n for n in range(50)})

    def test_a_kernel_that_died_meanwhile_is_replaced(self) -> None:
        self.client.run("print(1)").check()
        self.kill_kernel()
        self.assertEqual(self.client.run("print(2)").check().output, "2\n")


if __name__ == "__main__":
    unittest.main()
