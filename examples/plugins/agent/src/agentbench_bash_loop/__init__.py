"""An agent whose model writes bash commands, one per reply, until a reply has none."""

import re

import agentbench as ab

SYSTEM = "Solve the task. Reply with one ```bash block to run in the repository. When you are done, reply without one."
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@ab.agent
def bash_loop(session: ab.Session, setup: ab.AgentSetup) -> str:
    if setup.model is None:
        raise ab.InputError("agent 'bash_loop' needs a model", remedy="set one with --model")
    messages = [ab.Message("system", SYSTEM), ab.Message("user", session.briefing.text)]
    while True:
        reply = setup.model.complete(messages)
        command = BLOCK.search(reply.text)
        if command is None:
            return reply.text.strip()[:200] or "the model gave an empty reply"
        result = session.run(command[1])
        output = f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"
        messages += [reply.message(), ab.Message("user", output)]
