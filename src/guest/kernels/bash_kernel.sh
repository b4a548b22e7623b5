# The interpreter of a bash context (docs/agent-protocol.md "data: contexts"). Runs as a process of the tenant; the agent is
# on descriptor 0 when it starts. Bash 4.3 and later.
exec {__fb_fd}<&0 0</dev/null
__fb_code='' __fb_head='' __fb_status=0 __fb_running=0 __fb_stop='' __fb_pid=$BASHPID

__fb_send() {
  local LC_ALL=C
  printf '%s%08x%s' "$1" "${#2}" "$2" >&"$__fb_fd"
}

# Everything that is running returns, from the innermost function outwards: with extdebug, a DEBUG trap that gives 2 makes the
# shell return from what it is in. The trap must not start a subshell: that would inherit it, and start another.
__fb_leave() {
  if [[ " ${FUNCNAME[*]} " == *" __fb_run "* ]]; then return 2; fi
  return 0
}

__fb_unwind() {
  __fb_stop=$1
  shopt -s extdebug
  trap __fb_leave DEBUG
}

__fb_interrupt() {
  if ((__fb_running && BASHPID == __fb_pid)); then __fb_unwind interrupted; fi
}

exit() {
  if ((BASHPID != __fb_pid)); then builtin exit "$@"; fi
  __fb_exit=${1:-0}
  __fb_unwind exit
}

__fb_reseed() {
  if [[ -n ${SRANDOM:-} ]]; then
    RANDOM=$SRANDOM
  else
    RANDOM=$(od -An -N4 -tu4 /dev/urandom)
  fi
}

trap __fb_interrupt INT
trap __fb_reseed 41

__fb_run() {
  __fb_running=1
  __fb_send B ''
  eval "$__fb_code"
}

__fb_after() {
  trap - DEBUG
  __fb_status=$1
  __fb_running=0
  shopt -u extdebug
}

__fb_report() {
  local state=ok
  case $__fb_stop in
    interrupted)
      state=interrupted
      __fb_send E '{"name":"KeyboardInterrupt","message":"interrupted","traceback":[]}'
      ;;
    exit) __fb_status=$__fb_exit ;;
  esac
  if [[ $state == ok && $__fb_status != 0 ]]; then
    state=error
    __fb_send E '{"name":"ExitStatus","message":"exit status '"$((__fb_status))"'","traceback":[]}'
  fi
  __fb_send D '{"status":"'"$state"'"}'
}

__fb_send R ''
while LC_ALL=C IFS= read -r -u "$__fb_fd" -N 8 __fb_head; do
  __fb_code=''
  if ((16#$__fb_head > 0)); then
    LC_ALL=C IFS= read -r -u "$__fb_fd" -N "$((16#$__fb_head))" __fb_code || break
  fi
  __fb_stop='' __fb_exit=0
  __fb_run
  __fb_after "$?"
  __fb_report
done
builtin exit 0
