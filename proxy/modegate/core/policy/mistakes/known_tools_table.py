"""The tools of agents that were measured in December 2026, as their requests declare them.

`= AGENT`, then a line for each of its tools: its name and its arguments. An argument is a string unless one
of these stands behind it: b boolean, i integer, n number, a list, o object, s string beside another, ?
anything. Of strings: c is a command, j a program in JavaScript, p a patch. What an agent takes as free text
is the argument `input`. Behind `~` stand names of which the arguments are not known.
"""

from __future__ import annotations

TABLE = """
= Claude Code
Agent description prompt subagent_type model effort run_in_background:b isolation
AskUserQuestion questions:a answers:o annotations:o metadata:o
Bash command:c timeout:n description run_in_background:b dangerouslyDisableSandbox:b
CronCreate cron prompt recurring:b durable:b
CronDelete id
CronList
DeferredToolPlaceholder
Edit file_path old_string new_string replace_all:b
EnterWorktree name path
ExitPlanMode allowedPrompts:a
ExitWorktree action discard_changes:b
ListAgents channel q cursor
Monitor description timeout_ms:n command:c ws:o
NotebookEdit notebook_path cell_id new_source cell_type edit_mode
Read file_path offset:i limit:i pages allow_large:b
ReportFindings level findings:a
ScheduleWakeup delaySeconds:n reason prompt stop:b noop:b
SendMessage to summary message notify_when_idle:b
Skill skill args
TaskCreate subject description activeForm metadata:o
TaskGet taskId
TaskList
TaskOutput task_id block:b timeout:n
TaskStop task_id shell_id
TaskUpdate taskId subject description activeForm status addBlocks:a addBlockedBy:a owner metadata:o
ToolSearch query max_results:n
WebFetch url prompt offset:i
WebSearch query allowed_domains:a blocked_domains:a
Workflow script name description title args:? scriptPath resumeFromRunId
Write file_path content
= Cline
ask_question question options:a
editor path old_text new_text insert_line:i
fetch_web_content requests:a
read_files files:a
run_commands commands:ac
search_codebase queries:a
spawn_agent systemPrompt task
team_attach_outcome_fragment outcomeId section sourceRunId content
team_await_runs runId
team_broadcast subject body taskId
team_cancel_run runId reason
team_cleanup
team_create_outcome title requiredSections:a
team_finalize_outcome outcomeId
team_list_outcomes
team_list_runs status agentId includeCompleted:b
team_mission_log kind summary taskId evidence:a nextAction
team_read_mailbox unreadOnly:b
team_review_outcome_fragment fragmentId approved:b
team_run_task agentId task taskId runMode continueConversation:b
team_send_message toAgentId subject body taskId
team_shutdown_teammate agentId reason
team_spawn_teammate agentId rolePrompt
team_status
team_task action title description dependsOn:a assignee status taskId summary reason
= Codex
apply_patch input:p
clock__sleep duration_ms:n
collaboration__followup_task message target
collaboration__interrupt_agent target
collaboration__list_agents path_prefix
collaboration__send_message message target
collaboration__spawn_agent fork_turns message model reasoning_effort task_name
collaboration__wait_agent timeout_ms:n
create_goal objective token_budget:i
exec input:j
exec_command cmd:c justification login:b max_output_tokens:n prefix_rule:a sandbox_permissions shell
    tty:b workdir yield_time_ms:n
get_goal
multi_agent_v1__close_agent target
multi_agent_v1__resume_agent id
multi_agent_v1__send_input interrupt:b items:a message target
multi_agent_v1__spawn_agent fork_context:b items:a message model reasoning_effort
multi_agent_v1__wait_agent targets:a timeout_ms:n
request_user_input questions:a
request_user_input_async questions:a
send_message_to_user_async message
tool_search limit:n query
update_goal status
view_image path
wait cell_id max_tokens:n terminate:b yield_time_ms:n
web_search
write_stdin chars max_output_tokens:n session_id:n yield_time_ms:n
= Continue
AskQuestion question options:a defaultAnswer
Bash command:c timeout:n
CheckBackgroundJob job_id
Checklist checklist
Edit file_path old_string new_string replace_all:b
Exit
Fetch url
List dirpath
Read filepath
Skills skill_name
Write filepath content
= Copilot CLI
apply_patch input:p
bash command:c description shellId mode detach:b initial_wait:n
create path file_text
edit path old_str new_str
fetch_copilot_cli_documentation
glob pattern paths:sa
grep pattern paths:sa output_mode glob type -i:b -A:n -B:n -C:n -n:b head_limit:n multiline:b
list_agents include_completed:b scope
list_bash
read_agent agent_id wait:b timeout:n since_turn:i
read_bash shellId delay:n
rg pattern paths:sa output_mode glob type -i:b -A:n -B:n -C:n -n:b head_limit:n multiline:b
session_store_sql description query source
skill skill
sql description query
stop_bash shellId
task description prompt agent_type name model reasoning_effort context_tier mode
task_complete summary
view path view_range:a forceReadLargeFiles:b
write_agent agent_id agent_ids:a scope message
= deepagents
compact_conversation
delete file_path
edit_file file_path old_string new_string replace_all:b
fetch_url url timeout:i
get_current_thread_id
glob pattern path
grep pattern path glob output_mode max_count:i
js_eval code:j
ls path
read_file file_path offset:i limit:i
task description subagent_type
update_goal status note
write_file file_path content
= Gemini CLI
activate_skill name
complete_task report:o wait_for_previous:b
enter_plan_mode reason
exit_plan_mode plan_filename
glob pattern dir_path case_sensitive:b respect_git_ignore:b respect_gemini_ignore:b
google_web_search query
grep_search pattern dir_path include_pattern exclude_pattern names_only:b max_matches_per_file:i
    total_max_matches:i
invoke_agent agent_name prompt wait_for_previous:b
list_background_processes wait_for_previous:b
list_directory dir_path ignore:a file_filtering_options:o
read_background_output pid:i lines:i delay_ms:i wait_for_previous:b
read_file file_path start_line:i end_line:i
replace file_path instruction old_string new_string allow_multiple:b
run_shell_command command:c description dir_path is_background:b delay_ms:i
update_topic title summary strategic_intent wait_for_previous:b
web_fetch prompt
write_file file_path content
= gptme
append path content
complete
convert input_path output_path quality dry_run
ipython code
mcp command
memory
patch path patch
patch_many patches
recall result_id:i start_char:i max_chars:i
save path content
shell command:c background:b
tmux command:c
todo
vent
= Kilo
background_process action command:c id workdir description ready:o inherit:b persistent:b
bash command:c timeout:i workdir description
board_post to type body reply_to
board_read since limit:i
cancel_wakeup action id
edit filePath oldString newString replaceAll:b
glob pattern path
grep pattern path include context:i limit:i literal:b ignoreCase:b
kilo_local_recall mode query sessionID limit:n
read filePath offset:i limit:i
schedule_wakeup prompt delay when reason
skill name
task description prompt subagent_type task_id command background:b
todowrite todos:a
webfetch url format timeout:n
write content filePath
= mini-swe-agent
bash command:c
= Mistral Vibe
bash command:c timeout_seconds:i
edit file_path old_string new_string replace_all:b
read_file path offset:i limit:i
run_typescript code:j
search_tool_functions mode query functions:a functionNames:a connectors:a
skill name
todo action todos:a
unified_harness_scratchpad action path content
write_file path content
= OpenCode
apply_patch patchText:p
bash command:c timeout:i workdir
edit filePath oldString newString replaceAll:b
glob pattern path
grep pattern path include
read filePath offset:i limit:i
skill name
task description prompt subagent_type task_id command
todowrite todos:a
webfetch url format timeout:n
write content filePath
= OpenHands
file_editor security_risk summary command path file_text old_str new_str insert_line:i view_range:a
finish summary message
task security_risk summary description prompt subagent_type resume
task_tracker security_risk summary command task_list:a
terminal security_risk summary command:c is_input:b timeout:n reset:b
think summary thought
= Pi
bash command:c timeout:n
edit path edits:a
read path offset:n limit:n
write path content
= Qwen Code
agent description prompt subagent_type fork_turns:? fork_tools:a fork_profile run_in_background:b
    isolation working_dir
edit file_path old_string new_string replace_all:b
get_goal
glob pattern path
grep_search pattern glob path limit:i
list_agents
loop_wakeup delaySeconds:n prompt reason
monitor command:c description max_events:i idle_timeout_ms:i directory
notebook_edit notebook_path cell_id new_source cell_type edit_mode
read_file file_path offset:i limit:i pages
read_mcp_resource server_name uri
report_findings level findings:a
run_shell_command command:c is_background:b timeout:i description directory
skill skill args
tool_call name arguments:o
tool_search query max_results:i
update_goal status reason blockerKind
web_fetch url prompt format
write_file file_path content record_as_artifact:b
zoom_image file_path x1:i y1:i x2:i y2:i
= smolagents
final_answer answer
= Claude Code, earlier versions
~ BashOutput Glob Grep KillShell LS ListMcpResourcesTool MultiEdit NotebookRead ReadMcpResourceTool
~ SlashCommand Task TodoRead TodoWrite EnterPlanMode
= Pi, with all its tools
~ find grep ls
= Qwen Code, on request
~ ask_user_question exit_worktree list_directory read_many_files save_memory task todo_write
= agents that run text
~ write_to_file replace_in_file apply_diff insert_content search_and_replace search_replace edit_file
~ execute_command read_command_output browser_action use_mcp_tool access_mcp_resource new_task
~ switch_mode list_files search_files list_code_definition_names codebase_search update_todo_list
~ attempt_completion ask_followup_question str_replace_editor execute_bash python browser computer
= tools that the provider runs or defines
~ web_search web_fetch code_execution code_interpreter local_shell shell image_generation file_search
~ mcp memory advisor tool_search_tool_regex tool_search_tool_bm25 str_replace_based_edit_tool
bash command:c restart:b
"""
