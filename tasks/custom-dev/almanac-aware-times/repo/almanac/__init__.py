from almanac.reminders import Reminder, due

__all__ = ["Reminder", "due"]
