"""Reads the newest run with a failed attempt through `ab mcp`, with the official client (`pip install mcp`)."""

import asyncio

from mcp import Client, StdioServerParameters, stdio_client


async def main() -> None:
    server = StdioServerParameters(command="agentbench", args=["mcp", "artifacts/runs"])
    async with Client(stdio_client(server)) as client:
        runs = (await client.call_tool("list_runs", {"limit": 10})).structured_content["runs"]
        newest = next(run["name"] for run in runs if run["not_passed"])
        run = (await client.call_tool("read_run", {"run": newest})).structured_content
        print(run["headline"])
        failed = next(attempt for attempt in run["attempts"] if not attempt["passed"])
        print(failed["task_id"], failed["headline"])
        arguments = {"run": newest, "attempt": failed["attempt_id"], "limit": 5}
        trace = (await client.call_tool("read_trace", arguments)).structured_content
        print(*[event["type"] for event in trace["events"]], f"next: {trace['next_offset']}")


asyncio.run(main())
