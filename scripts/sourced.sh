# Executed, this file is the command. Sourced by bash or zsh, it lets the programs of that shell load the recording library
# from their start, or no longer:
#     source msmemscope --load-api-env
#     source msmemscope --unload-api-env
case "${1-}" in
--load-api-env | --unload-api-env)
    # This file prints what is to be done, when it is executed; each shell has its own word for where it is. One that was
    # sourced from the working directory has no directory in its name.
    if [ -n "${ZSH_VERSION-}" ]; then
        eval 'eval "$(PATH="$PATH:."; "${(%):-%x}" "$1" || echo return 2)"'
    else
        eval "$(PATH="$PATH:."; "${BASH_SOURCE-$0}" "$1" || echo return 2)"
    fi
    ;;
*)
    echo "msmemscope: what is sourced takes --load-api-env or --unload-api-env; for anything else run it as a command" >&2
    return 2
    ;;
esac
return
